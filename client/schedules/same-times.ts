/** Whether a Temporal Schedule has the times of a trigger. The server stores lines of cron as calendars. */
import type { ScheduleSource } from '../../domain/delivery/trigger.ts';

interface Range {
  readonly start?: number | null;
  readonly end?: number | null;
  readonly step?: number | null;
}

interface Duration {
  /** A number or one of its classes for 64 bits. */
  readonly seconds?: unknown;
  readonly nanos?: number | null;
}

/** The parts of the server's form that we use, and those that we do not. */
export interface StoredTimes {
  readonly structuredCalendar?: readonly StoredCalendar[] | null;
  readonly interval?: readonly { readonly interval?: Duration | null; readonly phase?: Duration | null }[] | null;
  readonly timezoneName?: string | null;
  readonly excludeStructuredCalendar?: readonly unknown[] | null;
  readonly startTime?: unknown;
  readonly endTime?: unknown;
  readonly jitter?: Duration | null;
}

interface StoredCalendar {
  readonly second?: readonly Range[] | null;
  readonly minute?: readonly Range[] | null;
  readonly hour?: readonly Range[] | null;
  readonly dayOfMonth?: readonly Range[] | null;
  readonly month?: readonly Range[] | null;
  readonly year?: readonly Range[] | null;
  readonly dayOfWeek?: readonly Range[] | null;
}

/** The least and the most value of each field of cron. */
const FIELDS = [
  [0, 59],
  [0, 23],
  [1, 31],
  [1, 12],
  [0, 6],
] as const;

export function hasSameTimes(stored: StoredTimes, { cron, everyMs, timezone }: ScheduleSource): boolean {
  const {
    structuredCalendar: calendars,
    interval: intervals,
    excludeStructuredCalendar: excluded,
    startTime,
    endTime,
  } = stored;
  if ((excluded ?? []).length > 0 || isSet(startTime) || isSet(endTime) || readMs(stored.jitter) > 0) return false;
  if (everyMs !== null) {
    const [only, ...others] = intervals ?? [];
    return (
      others.length === 0 &&
      (calendars ?? []).length === 0 &&
      readMs(only?.interval) === everyMs &&
      readMs(only?.phase) === 0
    );
  }
  if ((intervals ?? []).length > 0 || (stored.timezoneName || 'UTC') !== timezone) return false;
  const has = (calendars ?? []).map(writeCalendar).toSorted();
  return JSON.stringify(has) === JSON.stringify(cron.map(writeCron).toSorted());
}

function isSet(value: unknown): boolean {
  return value !== null && value !== undefined;
}

function readMs(duration: Duration | null | undefined): number {
  return Number(duration?.seconds ?? 0) * 1_000 + Math.round((duration?.nanos ?? 0) / 1e6);
}

function writeCalendar({ second, minute, hour, dayOfMonth, month, year, dayOfWeek }: StoredCalendar): string {
  const fields = [minute, hour, dayOfMonth, month, dayOfWeek].map(expandRanges);
  return JSON.stringify([expandRanges(second), (year ?? []).length, ...fields]);
}

function expandRanges(ranges: readonly Range[] | null | undefined): readonly number[] {
  return sortValues(
    (ranges ?? []).flatMap(({ start, end, step }) => {
      const from = start ?? 0;
      return listValues(from, Math.max(end ?? 0, from), step ?? 1);
    }),
  );
}

/** Only lines that the compiler has written: numbers, with single spaces. */
function writeCron(line: string): string {
  const fields = line.split(' ').map((text, index) => {
    const [least, most] = FIELDS[index]!;
    return sortValues(
      text.split(',').flatMap((item) => {
        const [range = '', step = '1'] = item.split('/');
        const [from = '', to = from] = range === '*' ? [String(least), String(most)] : range.split('-');
        return listValues(Number(from), Number(to), Number(step));
      }),
    );
  });
  return JSON.stringify([[0], 0, ...fields]);
}

function listValues(from: number, to: number, step: number): readonly number[] {
  const count = Math.floor((to - from) / Math.max(step, 1)) + 1;
  return Array.from({ length: count }, (_, index) => from + index * Math.max(step, 1));
}

function sortValues(values: readonly number[]): readonly number[] {
  return [...new Set(values)].toSorted((one, other) => one - other);
}
