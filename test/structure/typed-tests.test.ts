/** The compiler checks every test: a room whose tests it does not read could break them unnoticed. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { pathsOf } from './imports.ts';

const ROOT = findPackageRoot();

/** Returns the rooms that have tests and no pattern among those that the project of the tests includes. */
function findUntyped(paths: readonly string[], include: readonly string[]): readonly string[] {
  const rooms = new Set(paths.filter((path) => path.endsWith('.test.ts')).map((path) => path.split('/')[0]!));
  // The project is in the folder `test`, and includes all of it.
  return [...rooms].filter((room) => room !== 'test' && !include.includes(`../${room}/**/*.test.ts`));
}

test('the project of the tests includes the tests of each room', () => {
  const { include } = JSON.parse(readFileSync(join(ROOT, 'test', 'tsconfig.json'), 'utf8')) as {
    readonly include: readonly string[];
  };
  const paths = pathsOf(ROOT);
  expect(paths.filter((path) => path.endsWith('.test.ts')).length).toBeGreaterThan(400);
  expect(findUntyped(paths, include)).toEqual([]);
});

test('a room whose tests are not included is found', () => {
  expect(findUntyped(['app/a.test.ts', 'app/b.ts', 'http/c.ts', 'test/d.test.ts'], ['../http/**/*.test.ts'])).toEqual([
    'app',
  ]);
});
