/** The last moment that a `Date` can say, in milliseconds since the epoch; the first is as far before it. */
export const LAST_DATE_MS = 8.64e15;

/** True for milliseconds since the epoch that a `Date` can say. */
export function isDateMs(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= LAST_DATE_MS;
}

/** A day and a time with its offset from UTC, as in ISO 8601; without an offset it would mean another moment on each host. */
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2})$/;

/** Milliseconds since 1970; null when the text is no such time, or names a day that does not exist. */
export function parseTimeMs(text: string): number | null {
  if (!TIME.test(text)) return null;
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) return null;
  // Some engines take the 31st of February for a day in March.
  const day = new Date(Date.parse(`${text.slice(0, 10)}T00:00:00Z`)).toISOString().slice(0, 10);
  return day === text.slice(0, 10) ? ms : null;
}
