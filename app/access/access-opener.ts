/** One store of tokens for all requests of a service. */
import type { AccessStore } from '../../store/access.ts';
import { NO_TOKENS } from './no-tokens.ts';

/** A store that cannot be opened is not tried for each request. */
const RETRY_AFTER_MS = 5_000;

/**
 * `find`: opens the database if there is one; no request of a stranger fetches or makes one.
 * `make`: also fetches what it lacks and makes the database, for the first token.
 */
export type AccessUse = 'find' | 'make';

export type OpenAccess = (use: AccessUse) => Promise<AccessStore>;

export interface AccessOpener {
  /** Opens the store at the first call, and some seconds after a failure again. */
  readonly open: OpenAccess;
  close(): Promise<void>;
}

export interface AccessOpenerOptions {
  readonly openStore: OpenAccess;
  /** Whether a database exists. It is asked for each request until there is one. */
  readonly hasDatabase: () => boolean;
  readonly nowMs?: () => number;
}

interface Kept {
  readonly use: AccessUse;
  readonly store: Promise<AccessStore>;
  failedAtMs: number | null;
}

export function createAccessOpener({ openStore, hasDatabase, nowMs = Date.now }: AccessOpenerOptions): AccessOpener {
  let kept: Kept | null = null;
  const isUsable = ({ use, failedAtMs }: Kept, wanted: AccessUse): boolean => {
    if (failedAtMs === null) return true;
    // A piece that `find` lacks can be fetched by `make`.
    return nowMs() - failedAtMs < RETRY_AFTER_MS && (use === 'make' || wanted === 'find');
  };
  return {
    async open(use) {
      if (use === 'find' && !hasDatabase()) return NO_TOKENS;
      if (kept !== null && isUsable(kept, use)) return await kept.store;
      const made: Kept = { use, store: openStore(use), failedAtMs: null };
      made.store.catch(() => (made.failedAtMs = nowMs()));
      kept = made;
      return await made.store;
    },
    async close() {
      const store = await kept?.store.catch(() => null);
      await store?.close();
    },
  };
}
