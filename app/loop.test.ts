import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { startLoop } from './loop.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const LEAST_MS = 1_000;
const MOST_BUSY = 0.1;

/** Starts a loop without pauses of its own, and returns the pause after its first look. */
async function measurePause(look: { readonly wallMs: number; readonly cpuMs: number }): Promise<number> {
  let [wallMs, cpuMs, looks] = [0, 0, 0];
  const loop = startLoop({
    leastMs: LEAST_MS,
    mostBusy: MOST_BUSY,
    readClocks: () => ({ wallMs, cpuMs }),
    scan() {
      looks += 1;
      wallMs += look.wallMs;
      cpuMs += look.cpuMs;
      return Promise.resolve(0);
    },
  });
  await vi.advanceTimersByTimeAsync(0);
  let pauseMs = 0;
  for (; looks < 2; pauseMs += 100) await vi.advanceTimersByTimeAsync(100);
  await loop.close();
  return pauseMs;
}

test('a pause follows the CPU time of a look that waited for a CPU', async () => {
  expect(await measurePause({ wallMs: 60_000, cpuMs: 3_000 })).toBe(27_000);
});

test('a look does not count the CPU time of other work beyond its duration', async () => {
  expect(await measurePause({ wallMs: 500, cpuMs: 3_000 })).toBe(4_500);
});

test('a pause after a short look is the shortest one', async () => {
  expect(await measurePause({ wallMs: 10, cpuMs: 10 })).toBe(LEAST_MS);
});
