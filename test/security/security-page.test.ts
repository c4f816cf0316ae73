/** docs/reference/security.md promises nothing without a test, and each test that it names exists. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { findMissingTest, type NamedTest, readNamedTests, rowsOfPage } from '../rig/named-tests.ts';

const ROOT = findPackageRoot();
const PAGE = readFileSync(join(ROOT, 'docs/reference/security.md'), 'utf8');

interface Row {
  readonly what: string;
  readonly verdict: string;
  readonly tests: readonly NamedTest[];
}

function rowsOf(page: string): readonly Row[] {
  return rowsOfPage(page).map(([what = '', verdict = '', tests = '']) => ({
    what,
    verdict,
    tests: readNamedTests(tests),
  }));
}

const ROWS = rowsOf(PAGE);

/** Returns the problem of a row; null: there is no problem. */
function problemOf({ what, verdict, tests }: Row, read?: (file: string) => string | null): string | null {
  if (!/^(?:cannot|\*\*can\*\*)/.test(verdict)) return `"${what}" says neither cannot nor **can**`;
  if (verdict.startsWith('cannot') && tests.length === 0) return `"${what}" names no test`;
  const missing = findMissingTest(tests, read);
  return missing === null ? null : `"${what}" names ${missing}`;
}

test('the page has a table for each attacker', () => {
  const headings = [...PAGE.matchAll(/^## (.+)$/gm)].map((match) => match[1]);
  expect(headings).toEqual(
    expect.arrayContaining([
      'Another user of this machine',
      'A web page',
      'A guest',
      'The author of a project that I cloned',
      "A step machine's author",
      'A Temporal client',
      "A holder of an artifact's hash",
    ]),
  );
  expect(ROWS.length).toBeGreaterThan(35);
});

test.each(ROWS)('$what: $verdict', (row) => {
  expect(problemOf(row)).toBeNull();
});

/** Rows below one heading. */
function rowsBelow(heading: string): readonly Row[] {
  const start = PAGE.indexOf(`\n## ${heading}\n`);
  return rowsOf(PAGE.slice(start, PAGE.indexOf('\n## ', start + 1)));
}

test('each row about the author of a cloned project names a test, also of what the author can do', () => {
  const rows = rowsBelow('The author of a project that I cloned');
  expect(rows.length).toBeGreaterThanOrEqual(14);
  expect(rows.filter(({ tests }) => tests.length === 0).map(({ what }) => what)).toEqual([]);
});

test('the rows about a guest are not about the git folder of a cloned project', () => {
  const rows = rowsBelow('A guest');
  const files = rows.flatMap(({ tests }) => tests.map(({ file }) => file));
  expect(files).not.toContain('git/hostile-repository.process.test.ts');
  expect(files).not.toContain('test/cli/apply-hostile.process.test.ts');
});

test('a row without a test, with one that is gone or with another title is found', () => {
  const row = (text: string): Row => rowsOf(text)[0]!;
  const read = (file: string): string | null => (file === 'a.test.ts' ? "test('does it')" : null);
  expect(problemOf(row('| x | cannot | `a.test.ts` "does it" |'), read)).toBeNull();
  expect(problemOf(row('| x | cannot | |'), read)).toContain('names no test');
  expect(problemOf(row('| x | cannot | `b.test.ts` "does it" |'), read)).toContain('not there');
  expect(problemOf(row('| x | cannot | `a.test.ts` "does not" |'), read)).toContain('does not have');
  expect(problemOf(row('| x | may | |'), read)).toContain('neither');
});
