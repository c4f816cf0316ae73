/** The beginning of a part of a run's log: after an event, or from a moment on. */
import { parseDurationMs } from '../units/duration.ts';

export type Since = { readonly seq: number } | { readonly agoMs: number } | { readonly atMs: number };

export const SINCE_RULE = 'an age (90s, 10m, 2h, 1d), a time (2026-11-23T08:00:00Z), or the `seq` of an event';

/**
 * Reads `412`, `10m` or `2026-11-23T08:00:00Z`; a time without a zone is in UTC.
 * @returns null for another text
 */
export function parseSince(text: string): Since | null {
  if (/^\d{1,15}$/.test(text)) return { seq: Number(text) };
  const agoMs = parseDurationMs(text);
  if (agoMs !== null) return { agoMs };
  const iso = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$/.exec(text);
  const atMs = iso === null ? Number.NaN : Date.parse(text.includes('T') && iso[1] === undefined ? `${text}Z` : text);
  return Number.isNaN(atMs) ? null : { atMs };
}
