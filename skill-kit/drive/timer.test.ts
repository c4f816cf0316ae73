import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startTimer } from './timer.ts';

const DAY_MS = 86_400_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a timer of more than Node can count at once fires when its time has come, and not before', () => {
  let fired = 0;
  startTimer(60 * DAY_MS, () => fired++);
  vi.advanceTimersByTime(60 * DAY_MS - 1);
  expect(fired).toBe(0);
  vi.advanceTimersByTime(1);
  expect(fired).toBe(1);
});

test('it can be stopped at any time', () => {
  let fired = 0;
  const stop = startTimer(60 * DAY_MS, () => fired++);
  vi.advanceTimersByTime(40 * DAY_MS);
  stop();
  vi.advanceTimersByTime(40 * DAY_MS);
  expect(fired).toBe(0);
});
