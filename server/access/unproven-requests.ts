/** Requests of strangers, whose proof is their only right: how many of them one address may send without a right one. */
import type { Context } from 'hono';
import { toSenderKey } from '../hook-address.ts';
import { getClientAddress } from '../listener.ts';
import { createRateLimits } from './rate-limits.ts';
import { TooManyRequests } from './too-many-requests.ts';

const MOST_SENDERS = 10_000;

export interface UnprovenRequests {
  /**
   * Serves a request. Every request without a right proof counts for its address, however it ends.
   * @param serve  gets the key of the address, null for the Unix socket, and calls `prove` once the proof is right
   * @throws TooManyRequests
   */
  count(context: Context, serve: (sender: string | null, prove: () => void) => Promise<Response>): Promise<Response>;
}

export function createUnprovenRequests({
  perSecond,
  nowMs,
}: {
  readonly perSecond: number;
  readonly nowMs: () => number;
}): UnprovenRequests {
  const rates = createRateLimits({ requestsPerSecond: perSecond, mostKeys: MOST_SENDERS, nowMs });
  return {
    async count(context, serve) {
      const address = getClientAddress(context);
      const sender = address === null ? null : toSenderKey(address);
      const waitMs = sender === null ? null : rates.findWait(sender);
      if (waitMs !== null) throw new TooManyRequests(waitMs);
      let isProven = false;
      try {
        return await serve(sender, () => void (isProven = true));
      } finally {
        if (!isProven && sender !== null) rates.charge(sender);
      }
    },
  };
}
