/** Keeps one queue connected: opens it, reads it, and opens it again after each failure. */
import { describeFault, type QueueFault } from './queue-fault.ts';
import { consumeQueue, type ConsumeTools, waitFor } from './consume-queue.ts';
import type { QueueTrigger } from './message-event.ts';
import type { OpenedQueue, OpenQueue, QueueTarget } from './queue-port.ts';

export const KEEP_LIMITS = {
  /** The pause after a failure; it doubles with each further one. */
  firstPauseMs: 1_000,
  mostPauseMs: 60_000,
  /** After so long without a failure, the pause begins again. */
  calmMs: 60_000,
} as const;

export type QueueStateName = 'connecting' | 'reading' | 'waiting' | 'faulty';

/** The state of a queue, for the operator of a service. */
export interface QueueState {
  readonly deployment: string;
  readonly trigger: string;
  /**
   * - `connecting`: it is opened
   * - `reading`: messages are read as they arrive
   * - `waiting`: the deployment is paused, or has too many open deliveries; messages stay in the queue
   * - `faulty`: `code` and `message` say why; it is opened again after a pause
   */
  readonly state: QueueStateName;
  readonly code: string | null;
  readonly message: string | null;
  /** When the state began. */
  readonly sinceMs: number;
}

export interface KeepTools extends Omit<ConsumeTools, 'onState'> {
  readonly open: OpenQueue;
  /** Reads the secrets and checks that the queue may be read. @throws CodedError `queue/…` */
  readonly prepare: () => Promise<QueueTarget>;
  readonly keepLimits?: Readonly<Record<keyof typeof KEEP_LIMITS, number>>;
}

export interface QueueKeeper {
  getState(): QueueState;
  /** Ends when each message that was read is committed or given back. */
  readonly ended: Promise<void>;
}

export function keepQueue(trigger: QueueTrigger, tools: KeepTools): QueueKeeper {
  const { deployment, trigger: name } = trigger;
  const { nowMs, log, signal, keepLimits = KEEP_LIMITS } = tools;
  const at = `queue of trigger ${name} of deployment ${deployment}`;
  let state: QueueState = {
    deployment,
    trigger: name,
    state: 'connecting',
    code: null,
    message: null,
    sinceMs: nowMs(),
  };
  const setState = (next: QueueStateName, fault: QueueFault | null = null): void => {
    const { code = null, message = null } = fault ?? {};
    if (state.state === next && state.code === code && state.message === message) return;
    state = { ...state, state: next, code, message, sinceMs: nowMs() };
  };
  // One line for each change: a broker that is away for a day does not fill the log.
  let logged: string | null = null;
  const report = (fault: QueueFault | null): void => {
    const line = fault === null ? null : `${fault.code}: ${fault.message}`;
    if (line === logged) return;
    log(line === null ? `${at}: connected again` : `${at}: ${line}`);
    logged = line;
  };
  const run = async (): Promise<void> => {
    for (let failures = 0; !signal.aborted;) {
      const startedAtMs = nowMs();
      // Also while it is opened again, the operator sees the reason.
      if (logged === null) setState('connecting');
      const onState = (next: 'reading' | 'waiting'): void => {
        report(null);
        setState(next);
      };
      const fault = await readOnce(trigger, { ...tools, onState });
      if (fault === null) return;
      if (nowMs() - startedAtMs >= keepLimits.calmMs) failures = 0;
      report(fault);
      setState('faulty', fault);
      const pauseMs = Math.min(keepLimits.mostPauseMs, keepLimits.firstPauseMs * 2 ** Math.min(16, failures));
      failures += 1;
      // Services that lost the same broker do not all come at once.
      await waitFor(pauseMs * (0.5 + Math.random() / 2), signal);
    }
  };
  return { getState: () => state, ended: run() };
}

/** @returns null: the signal has ended it */
async function readOnce(
  trigger: QueueTrigger,
  tools: Omit<KeepTools, 'onState'> & Pick<ConsumeTools, 'onState'>,
): Promise<QueueFault | null> {
  const { signal } = tools;
  let target: QueueTarget | null = null;
  let queue: OpenedQueue | null = null;
  const stop = (): void => queue?.stop();
  try {
    target = await tools.prepare();
    if (signal.aborted) return null;
    queue = await tools.open(target);
    signal.addEventListener('abort', stop);
    if (signal.aborted) return null;
    await consumeQueue(queue, trigger, tools);
    return null;
  } catch (error) {
    return signal.aborted ? null : describeFault(error, Object.values(target?.secrets ?? {}));
  } finally {
    signal.removeEventListener('abort', stop);
    await queue?.close();
  }
}
