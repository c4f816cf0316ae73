/** Each decision says whether it holds, and the list of decisions agrees with it. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';

const FOLDER = join(findPackageRoot(), 'docs/adr');
const DECISIONS = readdirSync(FOLDER).filter((name) => /^\d{4}-.*\.md$/.test(name));
const LIST = readFileSync(join(FOLDER, 'README.md'), 'utf8');

const FOLDED = /^\*\*Status:\*\* folded into \[ADR (\d+)\]\((\d{4}-[^)]+\.md)\)\.$/;

/** The line after the title and an empty line. */
function readStatus(name: string): string {
  return readFileSync(join(FOLDER, name), 'utf8').split('\n')[2] ?? '';
}

test.each(DECISIONS)('the decision %s has a status after its title', (name) => {
  expect(readStatus(name)).toMatch(/^\*\*Status:\*\* (?:accepted|folded into \[ADR \d+\]\(\d{4}-[^)]+\.md\))\./);
});

test('the list of decisions names each decision, with the decision into which it was folded', () => {
  const rows = DECISIONS.map((name) => {
    const [, number] = FOLDED.exec(readStatus(name)) ?? [];
    const row = LIST.split('\n').find((line) => line.startsWith(`${Number(name.slice(0, 4))}. `)) ?? '';
    return {
      name,
      status: number ?? 'accepted',
      listed: /: folded into \[(\d+)\]/.exec(row)?.[1] ?? (row && 'accepted'),
    };
  });
  expect(rows.filter(({ status, listed }) => status !== listed)).toEqual([]);
});

test('a folded decision names a decision that holds', () => {
  const folded = DECISIONS.flatMap((name) => {
    const [, number, target] = FOLDED.exec(readStatus(name)) ?? [];
    return number === undefined ? [] : [{ name, number, target: target! }];
  });
  expect(folded.length).toBeGreaterThan(0);
  for (const { name, number, target } of folded) {
    expect(Number(target.slice(0, 4)), name).toBe(Number(number));
    expect(readStatus(target), name).toMatch(/^\*\*Status:\*\* accepted\./);
  }
});
