/** The last moment that a `Date` can represent, in milliseconds since the epoch; the first is as far before it. */
export const LAST_DATE_MS = 8.64e15;

/** True for milliseconds since the epoch that a `Date` can represent. */
export function isDateMs(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= LAST_DATE_MS;
}

/**
 * A day and a time with its offset from UTC, in the form of ISO 8601 and RFC 3339. Without an offset it would mean
 * another moment on each host.
 */
const TIME = /^(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}(?::\d{2})?)(?:\.(\d{1,9}))?(?:Z|([+-]\d{2}):?(\d{2}))$/i;

/**
 * Parses a time to milliseconds since 1970; null if the text is not such a time, or names a day that does not exist. A
 * part of a millisecond counts as a whole one, so that the moment has passed.
 */
export function parseTimeMs(text: string): number | null {
  const found = TIME.exec(text);
  if (found === null) return null;
  const [, day, time, fraction = '', hours, minutes] = found;
  // Only seconds have a fraction.
  if (fraction !== '' && time!.length === 5) return null;
  const ms = Date.parse(`${day!}T${time!}${hours === undefined ? 'Z' : `${hours}:${minutes!}`}`);
  if (Number.isNaN(ms)) return null;
  // Some engines parse the 31st of February as a day in March.
  if (new Date(Date.parse(`${day!}T00:00:00Z`)).toISOString().slice(0, 10) !== day) return null;
  return ms + Math.ceil(Number(fraction.padEnd(9, '0')) / 1_000_000);
}
