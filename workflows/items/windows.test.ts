import { describe, expect, test } from 'vitest';
import { randomOf } from '../../test/machine/random.ts';
import { mostItems } from '../../domain/pipeline/item-plan.ts';
import { PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { type Split, splitItems, splitItemsWithin } from './windows.ts';

const SPLITS = {
  splitItems: (items: number, stages: number, maxParallel: number): Split =>
    splitItems(items, stages, maxParallel, maxParallel),
  splitItemsWithin,
};

describe.each(Object.entries(SPLITS))('%s', (_, split) => {
  test.each([
    [0, 4, 5],
    [1, 4, 1],
    [1, 4, 50],
    [750, 4, 50],
    [751, 4, 50],
    [751, 4, 1],
    [5_000, 4, 10],
    [10_000, 4, 50],
    [10_000, 4, 3],
    [10_000, 13, 1_000],
    [10_000, 103, 7],
    [40, 3_001, 7],
  ])('%i items of up to %i attempts, %i at a time: each in one window, in order', (items, attempts, maxParallel) => {
    const { windows, shares } = split(items, attempts, maxParallel);
    expect(windows.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, at) => from + at))).toEqual(
      Array.from({ length: items }, (_, item) => item),
    );
    expect(windows.map(({ number }) => number)).toEqual(windows.map((_, at) => at));
    // Even with all retries, the history of a window has room; the last kind of window ends early instead.
    const most = split === SPLITS.splitItems ? 2_500 : 3_000;
    for (const { from, to } of windows) expect((to - from) * attempts).toBeLessThanOrEqual(Math.max(most, attempts));
    expect(shares.length).toBeLessThanOrEqual(Math.min(20, windows.length));
    expect(shares.reduce((sum, slots) => sum + slots, 0)).toBe(items === 0 ? 0 : maxParallel);
    for (const slots of shares) expect(slots).toBeGreaterThan(0);
  });
});

test.each([
  // [items, stages, maxParallel, mostSlots, windows, shares]
  [2_500, 1, 50, 750, 1, [50]],
  [2_501, 1, 50, 750, 2, [25, 25]],
  [2_500, 2, 50, 750, 2, [25, 25]],
  [5_000, 1, 50, 750, 2, [25, 25]],
  [5_000, 1, 1, 750, 2, [1]],
  [10_000, 1, 50, 750, 5, [10, 10, 10, 10, 10]],
  [40, 2_501, 7, 7, 40, [2, 2, 2, 1]],
  // If items may take many attempts, more windows use all slots.
  [170, 1, 50, 50, 1, [50]],
  [170, 1, 50, 49, 2, [25, 25]],
  [170, 1, 12, 3, 4, [3, 3, 3, 3]],
  [170, 1, 50, 1, 20, [...Array.from({ length: 10 }, () => 3), ...Array.from({ length: 10 }, () => 2)]],
])(
  '%i items of %i stages, %i at a time and %i in a window are in %i windows with the slots %j',
  (items, stages, most, mostSlots, windows, shares) => {
    const split = splitItems(items, stages, most, mostSlots);
    expect(split.shares).toEqual(shares);
    expect(split.windows).toHaveLength(windows);
  },
);

test('while windows wait for slow items, few slots are idle', () => {
  const random = randomOf(13);
  for (const [items, maxParallel] of [
    [1_000, 20],
    [5_000, 50],
    [10_000, 30],
  ] as const) {
    const durations = Array.from({ length: items }, () => (random(100) === 0 ? 60 : 0.5 + random(100) / 100));
    const busy = durations.reduce((sum, duration) => sum + duration, 0) / maxParallel;
    const end = endOf(splitItems(items, 1, maxParallel, maxParallel), durations);
    expect(end).toBeLessThan(1.6 * Math.max(busy, 60));
    expect(end).toBeLessThan(0.9 * endOf(equalWindows(items, maxParallel), durations));
  }
});

/** The reference for the split: windows of 250 items, of which four are open at the same time. */
function equalWindows(items: number, maxParallel: number): Split {
  const windows = Array.from({ length: Math.ceil(items / 250) }, (_, number) => ({
    number,
    from: number * 250,
    to: Math.min(items, (number + 1) * 250),
  }));
  const shares = [0, 1, 2, 3].map((lane) => Math.floor((maxParallel + lane) / 4));
  return { windows, shares };
}

/** The end of the last item, if only the items take time. */
function endOf({ windows, shares }: Split, durations: readonly number[]): number {
  const lanes = shares.map(() => 0);
  for (const { from, to } of windows) {
    const lane = lanes.indexOf(Math.min(...lanes));
    const slots = Array.from({ length: shares[lane]! }, () => lanes[lane]!);
    for (const duration of durations.slice(from, to)) slots[slots.indexOf(Math.min(...slots))]! += duration;
    lanes[lane] = Math.max(...slots);
  }
  return Math.max(...lanes);
}

test.each([
  [0, 4, 5],
  [10_000, 4, 50],
  [10_000, 4, 1],
  [8_400, 5, 50],
  [8_399, 5, 3],
  [14, 3_000, 50],
])(
  '%i items of up to %i attempts within an item, %i at a time: no more windows than the item counts',
  (items, attempts, maxParallel) => {
    expect(items).toBeLessThanOrEqual(mostItems(attempts, true));
    const { windows } = splitItemsWithin(items, attempts, maxParallel);
    expect(windows.length).toBeLessThanOrEqual(PLAN_LIMITS.nestedWindows);
  },
);
