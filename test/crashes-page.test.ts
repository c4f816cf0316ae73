/** docs/reference/crashes.md promises nothing without a test, and each test that it names exists. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../setup/package-root.ts';
import { findMissingTest, readNamedTests, rowsOfPage } from './rig/named-tests.ts';

const PAGE = readFileSync(join(findPackageRoot(), 'docs/reference/crashes.md'), 'utf8');
const ROWS = rowsOfPage(PAGE).map(([what = '', promise = '', tests = '']) => ({ what, promise, tests }));

test('the page has a table for each part that may die', () => {
  expect([...PAGE.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading)).toEqual([
    'The worker',
    'The VM',
    'The stack and the host',
    'A full disk',
    'Cancel and commands',
    'Sessions of step machines',
  ]);
  expect(ROWS.length).toBeGreaterThan(50);
});

test.each(ROWS)('$what: $promise', ({ promise, tests }) => {
  expect(promise).not.toBe('');
  const named = readNamedTests(tests);
  expect(named.length).toBeGreaterThan(0);
  expect(findMissingTest(named)).toBeNull();
});

test('each file that the page names is there, also outside of its tables', () => {
  expect(findMissingTest(readNamedTests(PAGE))).toBeNull();
});

test('the heads of tables are no rows, and a test that is gone is found', () => {
  const page = '| what | then | test |\n|---|---|---|\n| it | goes on | `a.test.ts` "goes on" |\n';
  expect(rowsOfPage(page)).toEqual([['it', 'goes on', '`a.test.ts` "goes on"']]);
  const named = readNamedTests(page);
  expect(findMissingTest(named, () => "test('goes on')")).toBeNull();
  expect(findMissingTest(named, () => "test('stops')")).toBe('"goes on", which a.test.ts does not have');
  expect(findMissingTest(named, () => null)).toBe('a.test.ts, which is not there');
});
