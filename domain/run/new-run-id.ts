/** Ids of runs that are started without one. */

/** `<name>-<yyyymmdd>-<hhmmss>-<random>` in UTC: readable, sorted by start, unique enough that a clash is refused at start. */
export function runIdOf(name: string, now: Date, random: string): string {
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
