const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Parses `90s`, `1h30m`, `500ms` or `1.5h` to milliseconds. Returns null if the text is not a duration; a bare number
 * is not one, because it has no unit.
 */
export function parseDurationMs(text: string): number | null {
  if (!/^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/.test(text)) return null;
  let total = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g))
    total += Number(amount) * UNITS_MS[unit!]!;
  return Number.isSafeInteger(Math.round(total)) ? Math.round(total) : null;
}

/** Writes the duration so that `parseDurationMs` reads it, in the largest unit that divides it: `90s`, `366d`. */
export function writeDurationMs(ms: number): string {
  const [unit, each] = Object.entries(UNITS_MS).findLast(([, size]) => ms % size === 0)!;
  return `${ms / each}${unit}`;
}

/**
 * Formats a duration for people: `850 ms`, `2.4 s`, `1m 05s`, `2h 03m`, `2d 01h`; `-` if the number is not a duration.
 */
export function formatDurationMs(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return '-';
  // The rounded value chooses the unit: 999.6 ms are 1.0 s, 59,960 ms are a minute.
  if (Math.round(ms) < 1_000) return `${Math.round(ms)} ms`;
  if (Math.round(ms / 100) < 600) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return pair(seconds, 60, 'm', 1, 's');
  if (seconds < 172_800) return pair(seconds, 3_600, 'h', 60, 'm');
  return pair(seconds, 86_400, 'd', 3_600, 'h');
}

/** Formats an age in one unit: `12s ago`, `5m ago`, `3h ago`, `9d ago`. */
export function formatAge(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 60) return `${seconds}s ago`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m ago`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3_600)}h ago`;
  return `${Math.floor(seconds / 86_400)}d ago`;
}

function pair(seconds: number, large: number, largeUnit: string, small: number, smallUnit: string): string {
  return `${Math.floor(seconds / large)}${largeUnit} ${String(Math.floor((seconds % large) / small)).padStart(2, '0')}${smallUnit}`;
}
