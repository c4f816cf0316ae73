/** Folders: how many files each holds, and the order of those of `domain/`. */
import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { findFolderCircles, findFullFolders } from './folders.ts';
import { importGraph, pathsOf } from './imports.ts';

const MOST_FILES = 30;

const paths = pathsOf(findPackageRoot()).filter((path) => /\.(ts|mjs|js|rs)$/.test(path));

test('no folder holds more than 30 files of the product', () => {
  expect(paths).toContain('domain/pipeline/machine.ts');
  expect(findFullFolders(paths, MOST_FILES)).toEqual([]);
});

test('a full folder is found, and its tests do not count', () => {
  const files = Array.from({ length: MOST_FILES + 1 }, (_, index) => `room/${index}.ts`);
  expect(findFullFolders(files, MOST_FILES)).toEqual(['room: 31 files']);
  expect(findFullFolders([...files.slice(1), 'room/a.test.ts', 'room/b.vm.test.ts'], MOST_FILES)).toEqual([]);
  expect(findFullFolders([...files.slice(1), 'room/inner/a.ts'], MOST_FILES)).toEqual([]);
});

test('folders of domain/ import each other in one order', () => {
  const sources = new Map(
    paths
      .filter((path) => path.startsWith('domain/') && !path.endsWith('.test.ts'))
      .map((path) => [path, readFileSync(join(findPackageRoot(), path), 'utf8')]),
  );
  const graph = importGraph(sources);
  // A graph without arrows would have no circles either.
  expect(graph.get('domain/pipeline/machine.ts')!.map((target) => posix.dirname(target))).toContain('domain/run');
  expect(findFolderCircles(graph)).toEqual([]);
});

test('a circle of folders is found although none of their files import each other in a circle', () => {
  const sources = new Map([
    ['one/a.ts', `import './b.ts'; import '../two/c.ts';`],
    ['one/b.ts', ''],
    ['two/c.ts', `import type { D } from '../three/d.ts';`],
    ['three/d.ts', `import '../one/b.ts';`],
    ['four/e.ts', `import '../one/a.ts';`],
  ]);
  expect(findFolderCircles(importGraph(sources))).toEqual([
    'one, three, two: one/a.ts imports two/c.ts; two/c.ts imports three/d.ts; three/d.ts imports one/b.ts',
  ]);
});
