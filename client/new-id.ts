/** Ids of runs and sessions that are started without one. */
import { randomBytes } from 'node:crypto';

/** `<name>-<yyyymmdd>-<hhmmss>-<4 hex>` in UTC: readable, sorted by start, unique enough that a clash is refused at start. */
export function newRunId(name: string, now: Date, random: string = randomBytes(2).toString('hex')): string {
  const stamp = now
    .toISOString()
    .replace(/\.\d+Z$/, '')
    .replace(/[-:]/g, '')
    .replace('T', '-');
  const stem = name
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[.-]+/, '')
    .slice(0, 64);
  return `${stem === '' ? 'run' : stem}-${stamp}-${random}`;
}
