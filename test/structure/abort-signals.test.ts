/** Node 20 deletes an `AbortSignal.timeout` that only an `AbortSignal.any` refers to, so that it aborts nothing. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { pathsOf } from './imports.ts';

const ROOT = findPackageRoot();
const LOST = /AbortSignal\.any\([^;]*AbortSignal\.timeout\(/;

test('no signal is made of a timeout that the garbage collector can delete', () => {
  const faulty = pathsOf(ROOT)
    .filter((path) => path.endsWith('.ts') && path !== 'test/structure/abort-signals.test.ts')
    .filter((path) => LOST.test(readFileSync(join(ROOT, path), 'utf8')));
  expect(faulty, 'use `limitSignal` of files/limited-signal.ts').toEqual([]);
});

test('a signal of two lines is found', () => {
  expect(LOST.test('const s = AbortSignal.any([\n  signal,\n  AbortSignal.timeout(5),\n]);')).toBe(true);
  expect(LOST.test('AbortSignal.any([a]);\nAbortSignal.timeout(5);')).toBe(false);
});
