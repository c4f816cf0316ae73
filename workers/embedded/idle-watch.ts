/** Ends a stack that nothing needs. */
import { setTimeout as sleep } from 'node:timers/promises';
import { textOf, type Log } from '../log.ts';

const IDLE_CHECK_MS = 15_000;
/** A look loads Temporal's client, a third of a second of a CPU while the first runs of the stack need it. */
const FIRST_LOOK_MS = 60_000;
/** The server lists a new schedule or run a moment after its client has the answer. */
export const SECOND_LOOK_MS = 3_000;

export interface IdleWatch {
  readonly idleLimitMs: number;
  readonly namespace: string;
  readonly address: () => string | null;
  /** The time at which a command last announced that it will use the stack. */
  readonly lastUsedMs: () => number;
  readonly log: Log;
  readonly stop: (why: string) => Promise<void>;
}

/**
 * Stops the stack when it had no open run, no Temporal Schedule with a next action time and no client for its limit. A server
 * that cannot be asked keeps its stack: the stack stops only if the server said twice that nothing needs it.
 */
export function watchIdle({ idleLimitMs, namespace, address, lastUsedMs, log, stop }: IdleWatch): NodeJS.Timeout {
  const everyMs = Math.min(IDLE_CHECK_MS, idleLimitMs);
  const firstLookAtMs = Date.now() + Math.min(FIRST_LOOK_MS, idleLimitMs);
  // A run may end before the first look: until then the stack counts as needed.
  let lastNeededMs = firstLookAtMs - everyMs;
  let isLooking = false;
  const isNeeded = async (): Promise<boolean> => {
    const at = address();
    if (at === null) return false;
    // Temporal's client, which is most of what a supervisor would load at its start.
    const { needsStack } = await import('./stack-needs.ts');
    return await needsStack({ address: at, namespace });
  };
  const isOver = (): boolean => Date.now() - Math.max(lastNeededMs, lastUsedMs()) >= idleLimitMs;
  const checkIdle = async (): Promise<void> => {
    if (await isNeeded()) lastNeededMs = Date.now();
    if (!isOver()) return;
    await sleep(SECOND_LOOK_MS);
    if (await isNeeded()) lastNeededMs = Date.now();
    if (isOver()) await stop(`no open run and no schedule for ${Math.round(idleLimitMs / 1000)} s`);
  };
  return setInterval(() => {
    if (isLooking || Date.now() < firstLookAtMs) return;
    isLooking = true;
    void checkIdle()
      .catch((error: unknown) => log('warning', `could not ask the server what needs the stack: ${textOf(error)}`))
      .finally(() => (isLooking = false));
  }, everyMs);
}
