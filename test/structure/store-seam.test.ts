/**
 * The users of a store do not know its kind: `store/open-*.ts` are the only files that make a store, and all others use
 * the ports in `activities/ports/`.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { importGraph, type ImportGraph, pathsOf } from './imports.ts';

const ROOT = findPackageRoot();
/** The folders of stores, each of one kind; `store/ports/` has ports. */
const BACKENDS = /^store\/(?!ports\/)[^/]+\//;
const OPENERS = /^store\/open-[^/]+\.ts$/;
/** Tests of what files of a store do to its state folder. */
const TESTS_OF_FILES: ReadonlySet<string> = new Set(['store/state-format.test.ts']);

function findLeaks(graph: ImportGraph): readonly string[] {
  return [...graph].flatMap(([path, targets]) =>
    targets
      .filter(
        (target) => BACKENDS.test(target) && !BACKENDS.test(path) && !OPENERS.test(path) && !TESTS_OF_FILES.has(path),
      )
      .map((target) => `${path} imports ${target}`),
  );
}

test(
  'no file outside of the folders of stores imports one, except those that open stores',
  { timeout: 300_000 },
  () => {
    const paths = pathsOf(ROOT).filter((path) => /\.(?:ts|mjs)$/.test(path) && !path.startsWith('test/spec/'));
    const graph = importGraph(new Map(paths.map((path) => [path, readFileSync(join(ROOT, path), 'utf8')])));
    expect(findLeaks(graph)).toEqual([]);
    // The check finds the openers of stores by these names.
    const opened = [...graph].filter(([path]) => OPENERS.test(path)).flatMap(([, targets]) => targets);
    expect(opened.filter((target) => BACKENDS.test(target)).map((target) => dirname(target))).toEqual(
      expect.arrayContaining(['store/file', 'store/sessions']),
    );
  },
);

test.each([
  ['cli/commands/status.ts', 'store/file/layout.ts'],
  ['workers/host.test.ts', 'store/sessions/record-files.ts'],
  ['store/projection.ts', 'store/file/layout.ts'],
  ['test/rig/worker.ts', 'store/postgres/rows.ts'],
])('an import is found: %s imports %s', (path, target) => {
  expect(findLeaks(new Map([[path, [target]]]))).toEqual([`${path} imports ${target}`]);
});

test.each([
  ['store/open-stores.ts', 'store/file/layout.ts'],
  ['store/sessions/record-files.ts', 'store/file/layout.ts'],
  ['cli/context.ts', 'store/open-stores.ts'],
])('an import is allowed: %s imports %s', (path, target) => {
  expect(findLeaks(new Map([[path, [target]]]))).toEqual([]);
});
