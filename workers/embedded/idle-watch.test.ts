import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { watchIdle } from './idle-watch.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a stack asks no server in its first minute, and stops its limit after the first look at the earliest', async () => {
  const address = vi.fn(() => null);
  const stop = vi.fn(() => Promise.resolve());
  const watch = watchIdle({
    idleLimitMs: 600_000,
    namespace: 'default',
    address,
    lastUsedMs: () => 0,
    log: () => undefined,
    stop,
  });
  await vi.advanceTimersByTimeAsync(59_999);
  expect(address).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(address).toHaveBeenCalledTimes(1);
  // One look each 15 s: a look after which the stack would end takes seconds, in which there is no other.
  await vi.advanceTimersByTimeAsync(570_000);
  expect(address).toHaveBeenCalledTimes(39);
  expect(stop).not.toHaveBeenCalled();
  clearInterval(watch);
});
