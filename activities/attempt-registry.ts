/** Who drives which exec in this process. A newer attempt makes the older one let go before it begins. */
import type { AttemptLife } from './heartbeat.ts';

/** How long a newer attempt waits for the older one to let go; beyond it the fence keeps the older one out. */
const HANDOVER_LIMIT_MS = 5_000;

export interface AttemptRegistry {
  /** Runs `body` as the only driver of `key` in this process. */
  drive<T>(key: string, life: AttemptLife, body: () => Promise<T>): Promise<T>;
  /** Keys that are driven now. */
  driven(): ReadonlySet<string>;
}

export function createAttemptRegistry(): AttemptRegistry {
  const drivers = new Map<string, { readonly life: AttemptLife; readonly done: Promise<void> }>();
  return {
    driven: () => new Set(drivers.keys()),
    async drive(key, life, body) {
      const older = drivers.get(key);
      let finish!: () => void;
      const mine = { life, done: new Promise<void>((resolve) => (finish = resolve)) };
      drivers.set(key, mine);
      try {
        if (older !== undefined) {
          older.life.detach('a newer attempt in this process took over');
          await waitAtMost(older.done, HANDOVER_LIMIT_MS);
        }
        life.detached.throwIfAborted();
        return await body();
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
