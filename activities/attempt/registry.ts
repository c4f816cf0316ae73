/** The attempts that this process drives, by exec. A newer attempt makes the older attempt detach before it begins. */
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { DetachedError } from '../failure.ts';
import type { AttemptLife } from '../heartbeat.ts';

/**
 * The time that a newer attempt waits for the older attempt to detach; after it, the fence excludes the older attempt.
 */
const HANDOVER_LIMIT_MS = 5_000;
/** The most remembered ends; a further end replaces the oldest. */
const MAX_ENDS = 1_000;
const MAX_REASON_CHARACTERS = 500;

export interface AttemptRegistry {
  /** Runs `body` as the only driver of `key` in this process. */
  drive<T>(key: string, life: AttemptLife, body: () => Promise<T>): Promise<T>;
  /**
   * Returns how the last attempt of this process on `key` ended without a result; null if this process knows of no such
   * attempt.
   */
  earlierEnd(key: string): string | null;
  /** Returns the keys that are driven now. */
  driven(): ReadonlySet<string>;
}

export function createAttemptRegistry(): AttemptRegistry {
  const drivers = new Map<string, { readonly life: AttemptLife; readonly done: Promise<void> }>();
  const ends = new Map<string, string>();
  const remember = (key: string, error: unknown): void => {
    ends.delete(key);
    ends.set(key, reasonOf(error).slice(0, MAX_REASON_CHARACTERS));
    for (const oldest of ends.keys()) {
      if (ends.size <= MAX_ENDS) return;
      ends.delete(oldest);
    }
  };
  return {
    earlierEnd: (key) => ends.get(key) ?? null,
    driven: () => new Set(drivers.keys()),
    async drive(key, life, body) {
      const older = drivers.get(key);
      // After a stop, the server may hand a worker obsolete attempts together with the current attempt, in any order.
      if (older !== undefined && older.life.scheduledAtMs > life.scheduledAtMs)
        throw new DetachedError('a newer attempt in this process drives it');
      let finish!: () => void;
      const mine = { life, done: new Promise<void>((resolve) => (finish = resolve)) };
      drivers.set(key, mine);
      try {
        if (older !== undefined) {
          older.life.detach('a newer attempt in this process took over');
          await waitAtMost(older.done, HANDOVER_LIMIT_MS);
        }
        life.detached.throwIfAborted();
        const result = await body();
        ends.delete(key);
        return result;
      } catch (error) {
        remember(key, life.detached.aborted ? life.detached.reason : error);
        throw error;
      } finally {
        if (drivers.get(key) === mine) drivers.delete(key);
        finish();
      }
    },
  };
}

async function waitAtMost(done: Promise<void>, limitMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([done, new Promise<void>((resolve) => (timer = setTimeout(resolve, limitMs)))]);
  clearTimeout(timer);
}

function reasonOf(error: unknown): string {
  if (error instanceof DetachedError) return `the previous attempt let go: ${error.reason}`;
  if (isCodedError(error)) return `${error.code}: ${error.message}`;
  return error instanceof Error ? error.message : String(error);
}
