/** Limits how many requests a token or an address sends in a second. */
export interface RateLimits {
  /** Counts a request. @returns null, or the milliseconds after which the key may send another request */
  count(key: string): number | null;
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
  return {
    count(key) {
      const now = nowMs();
      const { left, atMs } = buckets.get(key) ?? { left: requestsPerSecond, atMs: now };
      const refilled = Math.min(requestsPerSecond, left + (Math.max(0, now - atMs) / 1_000) * requestsPerSecond);
      const isAllowed = refilled >= 1;
      // The order of a map is the order of insertion.
      buckets.delete(key);
      buckets.set(key, { left: isAllowed ? refilled - 1 : refilled, atMs: now });
      if (buckets.size > mostKeys) buckets.delete(buckets.keys().next().value!);
      return isAllowed ? null : Math.ceil(((1 - refilled) / requestsPerSecond) * 1_000);
    },
  };
}
