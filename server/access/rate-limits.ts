/** Limits how many requests a token or an address sends in a second. */
export interface RateLimits {
  /** Counts a request. @returns null, or the milliseconds after which the key may send another request */
  count(key: string): number | null;
  /** @returns null, or the milliseconds after which the key may send another request; counts nothing */
  findWait(key: string): number | null;
  /** Counts a request that was served already, so that the key may owe some. */
  charge(key: string): void;
}

export interface RateLimitOptions {
  readonly requestsPerSecond: number;
  /** Keys that are remembered at once; another key then forgets the one that was used least recently. */
  readonly mostKeys: number;
  readonly nowMs: () => number;
}

interface Bucket {
  /** Requests that may be sent at once. */
  readonly left: number;
  readonly atMs: number;
}

/** A key may send as many requests at once as it may send in a second. */
export function createRateLimits({ requestsPerSecond, mostKeys, nowMs }: RateLimitOptions): RateLimits {
  const buckets = new Map<string, Bucket>();
  const fillAgain = (key: string): number => {
    const now = nowMs();
    const { left, atMs } = buckets.get(key) ?? { left: requestsPerSecond, atMs: now };
    return Math.min(requestsPerSecond, left + (Math.max(0, now - atMs) / 1_000) * requestsPerSecond);
  };
  const keep = (key: string, left: number): void => {
    // The order of a map is the order of insertion.
    buckets.delete(key);
    buckets.set(key, { left, atMs: nowMs() });
    if (buckets.size > mostKeys) buckets.delete(buckets.keys().next().value!);
  };
  const toWait = (left: number): number | null =>
    left >= 1 ? null : Math.ceil(((1 - left) / requestsPerSecond) * 1_000);
  return {
    count(key) {
      const left = fillAgain(key);
      const waitMs = toWait(left);
      keep(key, waitMs === null ? left - 1 : left);
      return waitMs;
    },
    findWait: (key) => toWait(fillAgain(key)),
    charge: (key) => keep(key, fillAgain(key) - 1),
  };
}
