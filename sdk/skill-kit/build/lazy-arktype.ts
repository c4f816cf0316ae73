/** ArkType names classes of the web when it is loaded, for which Node loads its HTTP client. In a program it does so when it has to. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Plugin } from 'rolldown';
import { packageRoot } from '../../../setup/package-root.ts';

/** Of ArkType, the modules that name them: all that is said of them stands in the first. */
const KINDS = /\/node_modules\/@ark\/util\/.*\/objectKinds\.js$/;
const NAMING = /\/node_modules\/(?:@ark\/util\/.*\/objectKinds|arktype\/.*\/keywords\/FormData)\.js$/;
/** Where a class is told from others that are called like it. */
const SAME_CLASS = 'builtinConstructors[constructorName] === ctor';

/**
 * @param modules  full paths of all files that the entry imports
 * @returns nothing where there is no ArkType, or one that tells classes apart in another way
 */
export function lazyArktype(modules: readonly string[]): readonly Plugin[] {
  const kinds = modules.filter((path) => KINDS.test(path));
  const isKnown = kinds.length > 0 && kinds.every((path) => readFileSync(path, 'utf8').split(SAME_CLASS).length === 2);
  return isKnown ? [PLUGIN] : [];
}

const PLUGIN: Plugin = {
  name: 'lazy-arktype',
  transform: {
    filter: { id: NAMING },
    handler(code) {
      const classes = JSON.stringify(join(packageRoot(), 'dist/sdk/skill-kit/build/lazy-web-classes.js'));
      const told = code.replace(SAME_CLASS, `(${SAME_CLASS} || isStoodInFor(constructorName, ctor))`);
      return `import { FormData, Headers, Request, Response, isStoodInFor } from ${classes};\n${told}`;
    },
  },
};
