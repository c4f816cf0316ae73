import { expect, test } from 'vitest';
import type { ScheduleSource } from '../../domain/delivery/trigger.ts';
import { makeSchedule } from '../../test/conformance/schedules.ts';
import { hasSameTimes, type StoredTimes } from './same-times.ts';

function makeSource(changes: Partial<ScheduleSource>): ScheduleSource {
  return makeSchedule(changes).source as ScheduleSource;
}

/** As the server of Temporal 1.32 stores `*\/10 1,2-6/2 * 3 1-5`: zeros are absent. */
const CALENDAR = {
  second: [{ step: 1 }],
  minute: [{ end: 59, step: 10 }],
  hour: [
    { start: 1, end: 1, step: 1 },
    { start: 2, end: 6, step: 2 },
  ],
  dayOfMonth: [{ start: 1, end: 31, step: 1 }],
  month: [{ start: 3, end: 3, step: 1 }],
  dayOfWeek: [{ start: 1, end: 5, step: 1 }],
};
const STORED: StoredTimes = { structuredCalendar: [CALENDAR], timezoneName: 'Europe/Berlin' };
const CRON = makeSource({ cron: ['*/10 1,2-6/2 * 3 1-5'] });

test('a line of cron is the calendar that the server makes of it, in any order', () => {
  expect(hasSameTimes(STORED, CRON)).toBe(true);
  const other = { ...CALENDAR, minute: [{ start: 5, end: 5, step: 1 }] };
  const both = makeSource({ cron: ['5 1,2-6/2 * 3 1-5', '*/10 1,2-6/2 * 3 1-5'] });
  expect(hasSameTimes({ ...STORED, structuredCalendar: [CALENDAR, other] }, both)).toBe(true);
  expect(hasSameTimes({ ...STORED, structuredCalendar: [other] }, both)).toBe(false);
});

test.each<[string, StoredTimes]>([
  ['another zone', { ...STORED, timezoneName: 'UTC' }],
  ['another minute', { ...STORED, structuredCalendar: [{ ...CALENDAR, minute: [{ end: 59, step: 11 }] }] }],
  ['another second', { ...STORED, structuredCalendar: [{ ...CALENDAR, second: [{ start: 1, end: 1 }] }] }],
  ['a year', { ...STORED, structuredCalendar: [{ ...CALENDAR, year: [{ start: 2026, end: 2026 }] }] }],
  ['no calendar', { ...STORED, structuredCalendar: [] }],
  ['a further calendar', { ...STORED, structuredCalendar: [CALENDAR, CALENDAR] }],
  ['a further interval', { ...STORED, interval: [{ interval: { seconds: 5 } }] }],
  ['an exclusion', { ...STORED, excludeStructuredCalendar: [{}] }],
  ['a beginning', { ...STORED, startTime: { seconds: 5 } }],
  ['an end', { ...STORED, endTime: { seconds: 5 } }],
  ['a jitter', { ...STORED, jitter: { seconds: 5 } }],
])('%s is a difference', (_what, stored) => {
  expect(hasSameTimes(stored, CRON)).toBe(false);
});

test('an interval is compared with its phase', () => {
  const hourly = makeSource({ cron: [], everyMs: 3_600_000, timezone: 'UTC' });
  const stored = (interval: object): StoredTimes => ({ interval: [interval], timezoneName: '' });
  expect(hasSameTimes(stored({ interval: { seconds: '3600' } }), hourly)).toBe(true);
  expect(hasSameTimes(stored({ interval: { seconds: 3_600, nanos: 5e6 } }), hourly)).toBe(false);
  expect(hasSameTimes(stored({ interval: { seconds: 3_600 }, phase: { seconds: 1 } }), hourly)).toBe(false);
  expect(hasSameTimes(STORED, hourly)).toBe(false);
});
