/** The payload of a delivery of a schedule, and its start. */

export interface ScheduledPayload {
  /** ISO 8601 in UTC. */
  readonly scheduledAt: string;
  /** The same time in the zone of the schedule, with its offset from UTC. */
  readonly localTime: string;
  readonly timezone: string;
  readonly trigger: string;
}

export function makeScheduledPayload(
  { trigger, timezone }: { readonly trigger: string; readonly timezone: string },
  atMs: number,
): ScheduledPayload {
  return {
    scheduledAt: new Date(atMs).toISOString(),
    localTime: formatLocalTime(atMs, timezone),
    timezone,
    trigger,
  };
}

/** Returns ISO 8601 with the offset of the zone, such as `2026-10-25T02:30:00+01:00`. */
export function formatLocalTime(atMs: number, timezone: string): string {
  const format = new Intl.DateTimeFormat('en', {
    timeZone: timezone,
    calendar: 'iso8601',
    numberingSystem: 'latn',
    hourCycle: 'h23',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    timeZoneName: 'longOffset',
  });
  const parts = new Map(format.formatToParts(atMs).map(({ type, value }) => [type, value]));
  const read = (type: Intl.DateTimeFormatPartTypes): string => parts.get(type) ?? '';
  const offset = read('timeZoneName').replace('GMT', '');
  const date = `${read('year').padStart(4, '0')}-${read('month')}-${read('day')}`;
  return `${date}T${read('hour')}:${read('minute')}:${read('second')}${offset === '' ? '+00:00' : offset}`;
}

/**
 * Returns the delay of a time, from 0 to `jitterMs`. It follows from the time, so that a second delivery of the same
 * time waits as long.
 * @param random  a number from 0 to 1 that follows from the schedule and its time
 */
export function computeJitter(jitterMs: number, random: number): number {
  return Math.round(jitterMs * random);
}
