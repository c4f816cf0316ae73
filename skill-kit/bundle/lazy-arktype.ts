/**
 * What ArkType does when it is loaded and a program that runs for one call can do without: it is left until it is asked for.
 * Nothing is done or said otherwise than by the ArkType that its authors wrote, but for the numbers that it gives to what has no name.
 * docs/adr/0010-built-skills-are-commonjs-in-parts.md says what that saves, and which change of ArkType makes this file needless.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Plugin } from 'rolldown';
import { findPackageRoot } from '../../setup/package-root.ts';

/**
 * The modules of ArkType that name web classes, for which Node loads its HTTP client. `KINDS` is the one that lists
 * them.
 */
const KINDS = /\/node_modules\/@ark\/util\/.*\/objectKinds\.js$/;
const NAMING = /\/node_modules\/(?:@ark\/util\/.*\/objectKinds|arktype\/.*\/keywords\/FormData)\.js$/;
/** The expression by which ArkType tells a class from others with the same name. */
const SAME_CLASS = 'builtinConstructors[constructorName] === ctor';

interface Postponement {
  readonly id: RegExp;
  /** Found once in the module, or this ArkType does it in another way and is left as it is. */
  readonly eager: RegExp;
  readonly lazy: string;
}

const SCOPE = /\/node_modules\/@ark\/schema\/.*\/scope\.js$/;
const POSTPONEMENTS: readonly Postponement[] = [
  {
    // Each scope binds all built-in types to itself, even unused ones, and the keywords have 33 scopes.
    id: SCOPE,
    eager: /this\.intrinsic =\s*(\$ark\.intrinsic \?\s*flatMorph\([^;]*?: \{\});/g,
    lazy: `Object.defineProperty(this, 'intrinsic', { configurable: true, get: () => this.cacheGetter('intrinsic', $1) });`,
  },
  {
    // Each scope writes down as JSON what it exports.
    id: SCOPE,
    eager: /this\._json = (resolutionsToJson\(this\._exportedResolutions\));/g,
    lazy: `Object.defineProperty(this, '_json', { configurable: true, get: () => this.cacheGetter('_json', $1) });`,
  },
  {
    // Only compiled code needs the discriminants of a union.
    id: /\/node_modules\/@ark\/schema\/.*\/roots\/union\.js$/,
    eager: /discriminant = (this\.discriminate\(\));/g,
    lazy: 'discriminant = this.$.resolvedConfig.jitless ? null : $1;',
  },
];

/** @param modules  full paths of all files that the entry imports */
export function lazyArktype(modules: readonly string[]): readonly Plugin[] {
  const kinds = modules.filter((path) => KINDS.test(path));
  if (kinds.length === 0) return [];
  const tellsClassesAsKnown = kinds.every((path) => readFileSync(path, 'utf8').split(SAME_CLASS).length === 2);
  return [...(tellsClassesAsKnown ? [LAZY_WEB_CLASSES] : []), ...POSTPONEMENTS.map(createPostponingPlugin)];
}

const LAZY_WEB_CLASSES: Plugin = {
  name: 'lazy-web-classes',
  transform: {
    filter: { id: NAMING },
    handler(code) {
      const classes = JSON.stringify(join(findPackageRoot(), 'dist/skill-kit/bundle/lazy-web-classes.js'));
      const told = code.replace(SAME_CLASS, `(${SAME_CLASS} || isStoodInFor(constructorName, ctor))`);
      return `import { FormData, Headers, Request, Response, isStoodInFor } from ${classes};\n${told}`;
    },
  },
};

function createPostponingPlugin({ id, eager, lazy }: Postponement): Plugin {
  return {
    name: 'lazy-arktype',
    transform: {
      filter: { id },
      handler: (code) => (code.match(eager)?.length === 1 ? code.replace(eager, lazy) : null),
    },
  };
}
