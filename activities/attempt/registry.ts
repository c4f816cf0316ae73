/** Who drives which exec in this process. A newer attempt makes the older one let go before it begins. */
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { DetachedError } from '../failure.ts';
import type { AttemptLife } from '../heartbeat.ts';

/** How long a newer attempt waits for the older one to let go; beyond it the fence keeps the older one out. */
const HANDOVER_LIMIT_MS = 5_000;
/** Ends that are remembered; the oldest is forgotten for another. */
const MAX_ENDS = 1_000;
const MAX_REASON_CHARACTERS = 500;

export interface AttemptRegistry {
  /** Runs `body` as the only driver of `key` in this process. */
  drive<T>(key: string, life: AttemptLife, body: () => Promise<T>): Promise<T>;
  /** How the last attempt of this process on `key` ended without a result; null where this process knows of none. */
  earlierEnd(key: string): string | null;
  /** Keys that are driven now. */
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
      // A worker that was stopped may be handed attempts that the server has given up together with the one that counts, in any order.
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
