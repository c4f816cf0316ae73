import { expect, it } from 'vitest';
import { BUDGET_MS, describeTimes } from './test-times.mjs';

const took = (name: string, durationMs: number): { name: string; durationMs: number } => ({ name, durationMs });

it('names ten of many files, the slowest first', () => {
  const files = Array.from({ length: 30 }, (_, index) => took(`file-${index}`, index * 1_000));
  const lines = describeTimes([took('pure', 1_234)], files);
  expect(lines.slice(0, 5)).toEqual([
    'time by group:',
    '      1.2 s  pure',
    '      1.2 s  total',
    'the 10 slowest of 30 files:',
    '     29.0 s  file-29',
  ]);
  expect(lines).toHaveLength(14);
});

it('says nothing of files where only other tools ran', () => {
  expect(describeTimes([took('rust', 60_000)], [])).toEqual([
    'time by group:',
    '     60.0 s  rust',
    '     60.0 s  total',
  ]);
});

it('warns above the budget alone, and names both', () => {
  const half = took('server', BUDGET_MS / 2);
  const warnings = (...groups: { name: string; durationMs: number }[]): string[] =>
    describeTimes(groups, []).filter((line) => line.startsWith('warning'));
  expect(warnings(half, half)).toEqual([]);
  expect(warnings(half, half, took('vm', 60_000))).toEqual([
    expect.stringMatching(/^warning: the tests took 36\.0 minutes; the budget is 35\.0\. Shorten /),
  ]);
});
