import type { parseSinceTime } from '../runs/log-filter.ts';

/** Returns a typed time in the form of the API. */
export function formatSince(since: ReturnType<typeof parseSinceTime> | undefined, nowMs: number): string | undefined {
  if (since === undefined) return undefined;
  return new Date('agoMs' in since ? nowMs - since.agoMs : since.atMs).toISOString();
}
