/** No file needs itself by way of others. The linter's own rule passes over types, and over imports that are made when needed. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findComponents } from '../../domain/step-machine/graph.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { importGraph, type ImportGraph, pathsOf } from './imports.ts';

/** Returns the shortest way round each circle, however many files depend on it: these are the arrows to check. */
function circlesIn(graph: ImportGraph): readonly string[] {
  return findComponents(graph)
    .map((files) => files.map((file) => wayRound(graph, file)).filter((way) => way !== null))
    .filter((ways) => ways.length > 0)
    .map((ways) => ways.toSorted((a, b) => a.length - b.length)[0]!.join(' → '));
}

/** From the file back to itself; null when no way leads back. */
function wayRound(graph: ImportGraph, start: string): readonly string[] | null {
  const ways = new Map<string, readonly string[]>([[start, [start]]]);
  for (const [file, way] of ways) {
    for (const target of graph.get(file)!) {
      if (target === start) return [...way, start];
      if (!ways.has(target)) ways.set(target, [...way, target]);
    }
  }
  return null;
}

test('no files import each other in a circle', { timeout: 300_000 }, () => {
  const paths = pathsOf(findPackageRoot()).filter((path) => /\.(ts|mjs|js)$/.test(path));
  const sources = new Map(paths.map((path) => [path, readFileSync(join(findPackageRoot(), path), 'utf8')]));
  const graph = importGraph(sources);
  // Proves that the graph is complete: the entry of the command line needs most of it.
  expect(graph.get('cli/main.ts')).toContain('cli/program.ts');
  expect(circlesIn(graph)).toEqual([]);
});

test.each([
  ['a value', `import { b } from './b.ts';`],
  ['a type', `import type { B } from './b.ts';`],
  ['what it hands on', `export { b } from './b.ts';`],
  ['all that it hands on', `export * from './b.ts';`],
  ['a file that is loaded when it is needed', `export const load = () => import('./b.ts');`],
  ['a type that is named in place', `export let b: import('./b.ts').B;`],
])('a circle is found by way of %s', (_what, text) => {
  const sources = new Map([
    ['room/a.ts', text],
    ['room/b.ts', `import '../hall.ts';`],
    ['hall.ts', `import './room/a.ts';`],
    ['apart.ts', `import './hall.ts'; import 'node:fs';`],
  ]);
  expect(circlesIn(importGraph(sources))).toEqual(['room/a.ts → room/b.ts → hall.ts → room/a.ts']);
});
