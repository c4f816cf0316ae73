/** A state folder without a number is refused by the names of its contents, so each name is in a list. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { STATE_CONTENTS } from '../../store/state-format.ts';
import { pathsOf } from './imports.ts';

const ROOT = findPackageRoot();
/** They do not depend on the format. */
const OF_EVERY_FORMAT = new Set(['logs', 'stack.lock', 'stack.stopped']);

/** @returns the names that a source joins to the path of a state folder */
function findNames(source: string): readonly string[] {
  return [...source.matchAll(/\bjoin\((?:\w+\.)*stateDir, '([^']+)'/g)].map(([, name]) => name!);
}

test('the names that a source joins to a state folder are found', () => {
  expect(findNames(`join(stateDir, 'a'); join(env.stateDir, 'b', id); join(dir, 'c')`)).toEqual(['a', 'b']);
});

test('each name in a state folder is in the list of its contents, or independent of the format', () => {
  const paths = pathsOf(ROOT).filter((path) => path.endsWith('.ts') && !/\.test\.ts$|^(?:test|bench)\//.test(path));
  const names = new Set(paths.flatMap((path) => findNames(readFileSync(join(ROOT, path), 'utf8'))));
  expect([...names].filter((name) => !STATE_CONTENTS.has(name) && !OF_EVERY_FORMAT.has(name))).toEqual([]);
  expect(names).toContain('stack.sock');
});
