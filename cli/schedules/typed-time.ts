import { InvalidArgumentError } from 'commander';

/** ISO 8601 with a date and a time; without an offset it is the time of this machine. */
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2})?$/;

/** Returns the time in UTC. @throws InvalidArgumentError */
export function parseTypedTime(text: string): string {
  const ms = TIME.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(ms)) return new Date(ms).toISOString();
  throw new InvalidArgumentError('It must be a time, such as 2026-12-01T06:00 or 2026-12-01T06:00:00+01:00.');
}
