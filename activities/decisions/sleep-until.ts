import { setTimeout as sleep } from 'node:timers/promises';

/** Below the longest delay that Node's timers accept. */
const MOST_MS = 60_000;

/** @throws the reason of `signal` */
export async function sleepUntil(untilMs: number, now: () => number, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    const leftMs = untilMs - now();
    if (leftMs <= 0) return;
    await sleep(Math.min(leftMs, MOST_MS), undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}
