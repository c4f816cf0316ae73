import { expect, test } from 'vitest';
import { followDeliveryId, formatDeliveryId, isDeliveryId, type LastDeliveryId } from './delivery-id.ts';

const MOST = (1n << 80n) - 1n;

test('an id has the time in its first 10 characters and the random bits in the others', () => {
  expect(formatDeliveryId({ timeMs: 0, random: 0n })).toBe('0'.repeat(26));
  // The greatest time and the example time of the specification of ULIDs.
  expect(formatDeliveryId({ timeMs: 2 ** 48 - 1, random: MOST })).toBe(`7${'z'.repeat(25)}`);
  expect(formatDeliveryId({ timeMs: 1_469_918_176_385, random: 0n })).toBe(`01aryz6s41${'0'.repeat(16)}`);
});

test('ids sort by their time, also within a millisecond and if the clock goes back', () => {
  let last: LastDeliveryId | null = null;
  const ids: string[] = [];
  for (const [nowMs, random] of [
    [5, 9n],
    [5, 0n],
    [5, MOST],
    [4, 3n],
    [6, 0n],
    [6, MOST],
    [2, MOST],
  ] as const) {
    last = followDeliveryId(last, nowMs, random);
    ids.push(formatDeliveryId(last));
  }
  expect(ids).toEqual([...new Set(ids)].toSorted());
  expect(ids.every(isDeliveryId)).toBe(true);
});

test('a millisecond without further ids continues in the next one', () => {
  expect(followDeliveryId({ timeMs: 7, random: MOST }, 7, 5n)).toEqual({ timeMs: 8, random: 5n });
});

test.each([
  '',
  '0'.repeat(25),
  '0'.repeat(27),
  `8${'0'.repeat(25)}`,
  '0'.repeat(25) + 'I',
  '0'.repeat(25) + 'u',
  `${'0'.repeat(26)}\n`,
])('a text that is no id: %j', (text) => {
  expect(isDeliveryId(text)).toBe(false);
});
