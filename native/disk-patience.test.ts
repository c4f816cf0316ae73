import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { FullDisk } from './api.ts';
import { startPatientLimit } from './disk-patience.ts';

const FULL: FullDisk = { forMs: 1, limitMs: 2, availableBytes: 0, neededBytes: 1 };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a limit asks the keeper only when the time is up, and expires if the disk has room', async () => {
  const asked: string[] = [];
  let expired = 0;
  startPatientLimit(
    '/vm',
    10_000,
    () => (expired += 1),
    async (dir) => {
      asked.push(dir);
      return null;
    },
  );
  await vi.advanceTimersByTimeAsync(9_999);
  expect([asked, expired]).toEqual([[], 0]);
  await vi.advanceTimersByTimeAsync(1);
  expect([asked, expired]).toEqual([['/vm'], 1]);
});

test('a limit is paused while the disk is full, and restarts when the disk has room', async () => {
  let full: FullDisk | null = FULL;
  let expired = 0;
  startPatientLimit(
    '/vm',
    10_000,
    () => (expired += 1),
    async () => full,
  );
  await vi.advanceTimersByTimeAsync(60_000);
  expect(expired).toBe(0);
  full = null;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(expired).toBe(0);
  await vi.advanceTimersByTimeAsync(1_500);
  expect(expired).toBe(1);
});

test('a keeper that does not answer gets no more time, and a limit that was given up never expires', async () => {
  let expired = 0;
  const deaf = (): Promise<never> => Promise.reject(new Error('deaf'));
  startPatientLimit('/vm', 10, () => (expired += 1), deaf);
  const giveUp = startPatientLimit('/vm', 10, () => (expired += 100), deaf);
  giveUp();
  await vi.advanceTimersByTimeAsync(100);
  expect(expired).toBe(1);
});
