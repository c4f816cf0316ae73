import { expect, test } from 'vitest';
import type { ArmResult } from '../measure.ts';
import { compareMeasure, isLoss, MOST_RATIO, renderComparison } from './judge.ts';

function arm(name: string, ...values: readonly number[]): ArmResult<'ms'> {
  return { name, rounds: values.map((ms) => ({ ms })) };
}

const compare = (base: readonly number[], current: readonly number[]): ReturnType<typeof compareMeasure> =>
  compareMeasure('a stage: latency', 'ms', [arm('base', ...base), arm('this build', ...current)], 'ms');

test('a comparison pairs the rounds, so that a drift of the machine cancels out', () => {
  const compared = compare([10, 20, 40], [10, 20, 40]);
  expect(compared.ratio).toEqual({ median: 1, min: 1, max: 1 });
  expect(isLoss(compared)).toBe(false);
});

test('a build loses if its median ratio reaches the limit, and not below it', () => {
  expect(isLoss(compare([100, 100, 100], [109, 109, 500]))).toBe(false);
  expect(isLoss(compare([100, 100, 100], [100 * MOST_RATIO, 100 * MOST_RATIO, 100]))).toBe(true);
});

test('a ratio that is no number is a loss instead of a pass', () => {
  expect(isLoss(compare([0, 0, 0], [0, 0, 0]))).toBe(true);
});

test('the table aligns its columns and marks a loss', () => {
  expect(renderComparison([compare([10, 10, 10], [20, 20, 20]), compare([10, 10, 10], [9, 9, 9])])).toEqual([
    'figure            base     this build  ratio',
    'a stage: latency  10.0 ms  20.0 ms     2.00 (2.00–2.00)     LOSS',
    'a stage: latency  10.0 ms  9.00 ms     0.900 (0.900–0.900)  ok',
  ]);
});
