import { expect, test } from 'vitest';
import { isDateMs, LAST_DATE_MS, parseTimeMs } from './time.ts';

test.each([
  ['2026-12-01T09:00:00Z', Date.UTC(2026, 11, 1, 9)],
  ['2026-12-01T09:00Z', Date.UTC(2026, 11, 1, 9)],
  ['2026-12-01T09:00:00.250+02:00', Date.UTC(2026, 11, 1, 7, 0, 0, 250)],
  ['2028-02-29T00:00:00-05:30', Date.UTC(2028, 1, 29, 5, 30)],
  ['2026-12-01T09:00:00+0100', Date.UTC(2026, 11, 1, 8)],
  ['2026-12-01T09:00-0530', Date.UTC(2026, 11, 1, 14, 30)],
  ['2026-12-01T09:00:00.123456789Z', Date.UTC(2026, 11, 1, 9, 0, 0, 124)],
  ['2026-12-01T09:00:00.999000001Z', Date.UTC(2026, 11, 1, 9, 0, 1)],
  ['2026-12-01T09:00:00.5Z', Date.UTC(2026, 11, 1, 9, 0, 0, 500)],
  ['2026-12-01t09:00:00z', Date.UTC(2026, 11, 1, 9)],
  ['2026-12-01t09:00:00.000001+01:00', Date.UTC(2026, 11, 1, 8, 0, 0, 1)],
])('%s is a time', (text, ms) => {
  expect(parseTimeMs(text)).toBe(ms);
});

test.each([
  '',
  '2026-12-01',
  '2026-12-01T09:00:00',
  '2026-02-30T09:00:00Z',
  '2026-13-01T09:00:00Z',
  '2026-12-01T09:00.5Z',
  '2026-12-01T09:00:00.1234567890Z',
  '2026-12-01T09:00:00+01',
  '2026-12-01T09:00:00+2500',
  'tomorrow',
  '90s',
])('%j is not a time', (text) => {
  expect(parseTimeMs(text)).toBeNull();
});

test('a date can represent every moment up to the last, and none after it', () => {
  for (const end of [LAST_DATE_MS, -LAST_DATE_MS]) {
    expect(isDateMs(end) && !Number.isNaN(new Date(end).getTime())).toBe(true);
    expect(isDateMs(end + Math.sign(end))).toBe(false);
    expect(new Date(end + Math.sign(end)).getTime()).toBeNaN();
  }
  expect([Number.NaN, Number.POSITIVE_INFINITY, '0', null].filter(isDateMs)).toEqual([]);
});
