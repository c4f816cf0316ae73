import { expect, test } from 'vitest';
import { type ClockReading, driftOf, expectRightClock } from './guest-clock.ts';

/** Readings every two seconds of a clock that is wrong by `errorMs` at a time, with answers after 30 ms. */
function readingsOf(errorMs: (seconds: number) => number): readonly ClockReading[] {
  return Array.from({ length: 31 }, (_, index) => {
    const error = errorMs(index * 2);
    return { atMs: 1_000_000 + index * 2_000, leastMs: error - 20, mostMs: error + 10 };
  });
}

test('a clock that is right, or drifts less than its keeper corrects, is accepted', () => {
  for (const error of [() => 0, () => 150, () => -150, (seconds: number) => seconds * 3 - 90])
    expectRightClock(readingsOf(error));
});

test('a clock that is late or early at one reading is refused', () => {
  expect(() => expectRightClock(readingsOf((seconds) => (seconds === 30 ? -211 : 0)))).toThrow('late at reading 15');
  expect(() => expectRightClock(readingsOf((seconds) => (seconds === 30 ? 221 : 0)))).toThrow('early at reading 15');
});

test('a clock that drifts more than its keeper can correct is refused, also if each reading is right', () => {
  for (const sign of [1, -1]) {
    const readings = readingsOf((seconds) => sign * (seconds * 12 - 190)).slice(0, 16);
    expect(Math.sign(driftOf(readings).ms)).toBe(sign);
    expect(() => expectRightClock(readings)).toThrow(/ms in \d+ s/);
  }
});
