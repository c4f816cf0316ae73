import { expect, test } from 'vitest';
import type { ScheduleJson } from '../../../app/schedules/manage-schedules.ts';
import { PLAIN } from '../text/style.ts';
import { renderBackfilled, renderSchedule, renderSchedules } from './schedules.ts';

const NOW_MS = Date.UTC(2026, 9, 24, 12);
const NIGHTLY: ScheduleJson = {
  deployment: 'report',
  trigger: 'nightly',
  cron: ['30 2 * * 1-5', '0 8 1-7 * 6'],
  everyMs: null,
  timezone: 'Europe/Berlin',
  jitterMs: 60_000,
  catchup: 'last',
  windowMs: 86_400_000,
  overlap: 'skip',
  isPaused: false,
  pausedBy: null,
  note: null,
  next: [{ at: '2026-10-26T01:30:00.000Z', local: '2026-10-26T02:30:00+01:00' }],
  last: {
    id: '01a',
    state: 'filtered',
    hold: null,
    code: 'trigger/overlap',
    runId: null,
    acceptedAtMs: NOW_MS - 3_600_000,
    scheduledAtMs: NOW_MS - 3_600_000,
  },
};
const LAYOUT = { style: PLAIN, width: 120, nowMs: NOW_MS };

test('a list has a row for each schedule, and its next times in both zones', () => {
  const hourly = { ...NIGHTLY, trigger: 'hourly', cron: [], everyMs: 3_600_000, last: null, next: null };
  const paused = {
    ...NIGHTLY,
    trigger: 'x',
    isPaused: true,
    pausedBy: 'schedule',
    note: 'why\u001b[2J',
    next: [],
  } as const;
  expect(renderSchedules([NIGHTLY, hourly, paused], LAYOUT)).toMatchInlineSnapshot(`
    [
      "DEPLOYMENT  SCHEDULE  STATE         LAST                               TIMES",
      "report      nightly   enabled       filtered (trigger/overlap) 1h ago  30 2 * * 1-5, calendar 0 8 1-7 * 6 Europe/Berlin",
      "  2026-10-26T01:30:00.000Z  2026-10-26T02:30:00+01:00",
      "report      hourly    enabled       -                                  every 1h 00m",
      "  the server of Temporal does not answer, or does not have it yet",
      "report      x         paused (why)  filtered (trigger/overlap) 1h ago  30 2 * * 1-5, calendar 0 8 1-7 * 6 Europe/Berlin",
    ]
  `);
});

test('a schedule is shown with its rules, its latest delivery and its next times', () => {
  expect(renderSchedule(NIGHTLY, LAYOUT)).toMatchInlineSnapshot(`
    [
      "schedule  nightly of report",
      "state     enabled",
      "times     30 2 * * 1-5, calendar 0 8 1-7 * 6 Europe/Berlin",
      "jitter    1m 00s",
      "catchup   last, within 24h 00m",
      "overlap   skip",
      "latest    01a, filtered (trigger/overlap) 1h ago",
      "  2026-10-26T01:30:00.000Z  2026-10-26T02:30:00+01:00",
    ]
  `);
});

test('a backfill shows each time with its delivery', () => {
  const time = { at: '2026-10-26T01:30:00.000Z', local: '2026-10-26T02:30:00+01:00' };
  expect(
    renderBackfilled(
      [
        { ...time, delivery: '01b' },
        { ...time, delivery: null },
      ],
      LAYOUT,
    ),
  ).toMatchInlineSnapshot(`
    [
      "TIME                      IN ITS ZONE                DELIVERY",
      "2026-10-26T01:30:00.000Z  2026-10-26T02:30:00+01:00  01b",
      "2026-10-26T01:30:00.000Z  2026-10-26T02:30:00+01:00  not started: a dry run",
    ]
  `);
});
