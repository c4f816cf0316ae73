import { expect, test } from 'vitest';
import { computeJitter, formatLocalTime, makeScheduledPayload } from './scheduled-payload.ts';

test.each([
  // The clock of Berlin goes from 2:00 to 3:00, and in autumn from 3:00 to 2:00.
  ['2026-03-29T00:59:59Z', 'Europe/Berlin', '2026-03-29T01:59:59+01:00'],
  ['2026-03-29T01:00:00Z', 'Europe/Berlin', '2026-03-29T03:00:00+02:00'],
  ['2026-10-25T00:30:00Z', 'Europe/Berlin', '2026-10-25T02:30:00+02:00'],
  ['2026-10-25T01:30:00Z', 'Europe/Berlin', '2026-10-25T02:30:00+01:00'],
  ['2026-07-01T00:00:00Z', 'UTC', '2026-07-01T00:00:00+00:00'],
  ['2026-07-01T00:00:00Z', 'Asia/Kolkata', '2026-07-01T05:30:00+05:30'],
  ['2026-01-01T02:00:00Z', 'America/St_Johns', '2025-12-31T22:30:00-03:30'],
])('%s is in %s the time %s', (utc, timezone, expected) => {
  expect(formatLocalTime(Date.parse(utc), timezone)).toBe(expected);
  expect(Date.parse(expected)).toBe(Date.parse(utc));
});

test('a payload names the time in UTC and in its zone', () => {
  expect(makeScheduledPayload({ trigger: 'nightly', timezone: 'Europe/Berlin' }, Date.UTC(2026, 9, 25, 1, 30))).toEqual(
    {
      scheduledAt: '2026-10-25T01:30:00.000Z',
      localTime: '2026-10-25T02:30:00+01:00',
      timezone: 'Europe/Berlin',
      trigger: 'nightly',
    },
  );
});

test('a jitter is a part of its limit', () => {
  expect([computeJitter(60_000, 0), computeJitter(60_000, 0.5), computeJitter(60_000, 1)]).toEqual([0, 30_000, 60_000]);
});
