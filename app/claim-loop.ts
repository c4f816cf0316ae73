/**
 * Claims what is due and works on it, until it is closed. Between two looks it waits for the next due time or for a call.
 * Several processes may do this at once: rows say what each has claimed.
 */
import type { TriggerStore } from '../store/triggers.ts';
import { type Loop, startLoop } from './loop.ts';

export interface ClaimLoopOptions {
  /** In the log. */
  readonly what: string;
  /** Null: there is no database yet. */
  readonly openTriggers: () => Promise<TriggerStore | null>;
  readonly claim: (triggers: TriggerStore) => Promise<ClaimResult>;
  /** The time at which the next row is due; null: none waits. */
  readonly findNextDue: (triggers: TriggerStore, nowMs: number) => Promise<number | null>;
  /** Called after the last due row. */
  readonly onIdle: (triggers: TriggerStore) => Promise<void>;
  /** Whether the first look counts as one after work: a process before this one may have died before `onIdle`. */
  readonly beginsBusy: boolean;
  /** Whether each call counts as work, although no row may be due. */
  readonly wakesBusy: boolean;
  readonly nowMs: () => number;
  readonly log: (line: string) => void;
  readonly limits: {
    /** The pause between two looks, if no call of `wake` ends it. */
    readonly idleMs: number;
    /** The pause after a failure of the database. */
    readonly failureMs: number;
  };
}

/**
 * - `some`: rows were claimed, and more may be due
 * - `none`: no row is due
 * - `none-yet`: no row is due, and earlier work has not ended
 * - `full`: there is no room for more work, whose end calls `wake`
 */
export type ClaimResult = 'some' | 'none' | 'none-yet' | 'full';

export function startClaimLoop(options: ClaimLoopOptions): Loop {
  const { what, openTriggers, claim, findNextDue, onIdle, wakesBusy, nowMs, log, limits } = options;
  let isBusy = options.beginsBusy;
  const look = async (): Promise<number> => {
    const triggers = await openTriggers();
    const claimed = triggers === null ? 'full' : await claim(triggers);
    if (triggers === null || claimed === 'full') return limits.idleMs;
    if (claimed === 'some') {
      isBusy = true;
      return 0;
    }
    if (claimed === 'none') {
      if (isBusy) await onIdle(triggers);
      isBusy = false;
    }
    const dueAtMs = await findNextDue(triggers, nowMs());
    return dueAtMs === null ? limits.idleMs : Math.max(0, Math.min(limits.idleMs, dueAtMs - nowMs()));
  };
  const loop = startLoop({
    leastMs: 0,
    scan: async () =>
      await look().catch((error: Error) => {
        log(`${what}: ${error.message}`);
        return limits.failureMs;
      }),
  });
  return {
    wake() {
      isBusy ||= wakesBusy;
      loop.wake();
    },
    close: async () => await loop.close(),
  };
}
