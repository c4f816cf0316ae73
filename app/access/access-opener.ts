/** One store of tokens for all requests of a service. */
import type { AccessStore } from '../../store/access.ts';

/** A store that cannot be opened is not tried for each request: a try may fetch a piece of set-up. */
const RETRY_AFTER_MS = 5_000;

export interface AccessOpener {
  /** Opens the store at the first call, and some seconds after a failure again. */
  open(): Promise<AccessStore>;
  close(): Promise<void>;
}

export function createAccessOpener(
  openStore: () => Promise<AccessStore>,
  nowMs: () => number = Date.now,
): AccessOpener {
  let kept: Promise<AccessStore> | null = null;
  let failedAtMs: number | null = null;
  return {
    open() {
      if (failedAtMs !== null && nowMs() - failedAtMs >= RETRY_AFTER_MS) kept = null;
      if (kept !== null) return kept;
      failedAtMs = null;
      const opened = openStore();
      opened.catch(() => (failedAtMs = nowMs()));
      return (kept = opened);
    },
    async close() {
      const store = await kept?.catch(() => null);
      await store?.close();
    },
  };
}
