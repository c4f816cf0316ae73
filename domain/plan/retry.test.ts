import { expect, test } from 'vitest';
import { isWorthRetrying, retryPauseMs } from './retry.ts';

const pauses = (retry: Parameters<typeof retryPauseMs>[0], count: number): readonly number[] =>
  Array.from({ length: count }, (_, index) => retryPauseMs(retry, index + 1));

test('without a factor, all pauses are equal', () => {
  expect(pauses({ maxAttempts: 9, backoffMs: 700 }, 3)).toEqual([700, 700, 700]);
  expect(pauses({ maxAttempts: 9, backoffMs: 0, factor: 100 }, 3)).toEqual([0, 0, 0]);
});

test('pauses grow by the factor, up to the longest one', () => {
  expect(pauses({ maxAttempts: 9, backoffMs: 100, factor: 1.5 }, 4)).toEqual([100, 150, 225, 338]);
  expect(pauses({ maxAttempts: 9, backoffMs: 100, factor: 3, maxBackoffMs: 500 }, 4)).toEqual([100, 300, 500, 500]);
  expect(pauses({ maxAttempts: 9, backoffMs: 900, maxBackoffMs: 500 }, 1)).toEqual([500]);
});

test('without `maxBackoffMs`, the longest pause is a day', () => {
  expect(retryPauseMs({ maxAttempts: 100, backoffMs: 1_000, factor: 100 }, 99)).toBe(24 * 3_600_000);
});

test('`nonRetryable` names a failure by its code, and a failed command also by its exit code', () => {
  const retry = { maxAttempts: 3, backoffMs: 0, nonRetryable: ['stage/timeout', 'exit:2'] };
  expect(isWorthRetrying(retry, { code: 'stage/timeout' }, null)).toBe(false);
  expect(isWorthRetrying(retry, { code: 'stage/exit-nonzero' }, 2)).toBe(false);
  expect(isWorthRetrying(retry, { code: 'stage/exit-nonzero' }, 1)).toBe(true);
  expect(isWorthRetrying({ maxAttempts: 3, backoffMs: 0 }, { code: 'stage/expression' }, null)).toBe(false);
  for (const final of ['exit:137', 'stage/exit-nonzero', 'stage/out-of-memory'])
    expect(isWorthRetrying({ ...retry, nonRetryable: [final] }, { code: 'stage/out-of-memory' }, 137), final).toBe(
      false,
    );
  expect(isWorthRetrying(retry, { code: 'stage/out-of-memory' }, 137)).toBe(true);
  // The command ended with exit code 0, but its output is missing.
  expect(isWorthRetrying({ ...retry, nonRetryable: ['exit:0'] }, { code: 'stage/output-missing' }, 0)).toBe(true);
  expect(isWorthRetrying({ maxAttempts: 3, backoffMs: 0 }, { code: 'stage/exit-nonzero' }, 2)).toBe(true);
});
