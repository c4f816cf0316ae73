/** Follows a command to its end: writes its output into the log, and ends it after a cancel request. */
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Redactor } from '../../domain/security/redactor.ts';
import type { ActivityDeps } from '../deps.ts';
import type { AttemptLife } from '../heartbeat.ts';
import { pumpOutput } from './output-pump.ts';
import type { Exec, ExecExit, Sandbox } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';

/** Time that a command has between SIGTERM and SIGKILL when its run is cancelled. */
export const TERM_GRACE_MS = 2_000;
/** The time limit for the end of a command after a cancel. Beyond it, the VM counts as lost. */
export const KILL_LIMIT_MS = 5_000;

export interface FollowContext {
  readonly deps: Pick<ActivityDeps, 'events' | 'now' | 'disk'>;
  readonly request: StageRequest;
  readonly life: AttemptLife;
}

/** @param stop aborted to end the listener; a listener that fails aborts it too, which ends the others */
export type Listen = (stop: AbortController) => Promise<void>;

/**
 * Follows the command until it has ended and its last byte is stored. A cancel request ends the command, not the
 * following.
 */
export function follow(
  context: FollowContext,
  sandbox: Sandbox,
  exec: Exec,
  redactor: Redactor,
  others: readonly Listen[] = [],
): Promise<ExecExit> {
  return followWith(context, exec, [pumpOf(context, sandbox, exec, redactor), ...others]);
}

export function pumpOf({ deps, request }: FollowContext, sandbox: Sandbox, exec: Exec, redactor: Redactor): Listen {
  const options = {
    runId: request.runId,
    stage: request.stage.id,
    execKey: request.execKey,
    fence: sandbox.facts.fence,
    exec,
    events: deps.events,
    redactor,
    now: deps.now,
    disk: deps.disk,
  };
  return (stop) => pumpOutput(options, stop);
}

/**
 * Does the same as `follow`, with these readers of the output. It resolves when the command and all readers have ended.
 */
export async function followWith({ life }: FollowContext, exec: Exec, listeners: readonly Listen[]): Promise<ExecExit> {
  const killer = killWhenCancelled(exec, life);
  const stop = new AbortController();
  const abortStream = (): void => stop.abort(life.detached.reason);
  if (life.detached.aborted) abortStream();
  else life.detached.addEventListener('abort', abortStream, { once: true });
  const heard = listeners.map((listen) => listen(stop));
  const exit = exec.wait(stop.signal);
  const all = Promise.all([exit, ...heard]);
  try {
    await Promise.race([all, killer.expired]);
    return await exit;
  } catch (error) {
    stop.abort(error);
    await Promise.allSettled([exit, ...heard]);
    throw error;
  } finally {
    life.detached.removeEventListener('abort', abortStream);
    killer.dispose();
  }
}

interface Killer {
  /** Rejects if a killed command does not end. */
  readonly expired: Promise<never>;
  dispose(): void;
}

function killWhenCancelled(exec: Exec, life: AttemptLife): Killer {
  let timer: NodeJS.Timeout | undefined;
  let reject!: (error: unknown) => void;
  const expired = new Promise<never>((_, refuse) => (reject = refuse));
  expired.catch(() => undefined);
  const onCancel = (): void => {
    life.phase('cancelling');
    exec.end({ kind: 'cancel' }, TERM_GRACE_MS).catch(() => undefined);
    timer = setTimeout(
      () => reject(new CodedError('vm/lost', 'the command did not end after SIGKILL')),
      TERM_GRACE_MS + KILL_LIMIT_MS,
    );
  };
  if (life.cancelRequested.aborted) onCancel();
  else life.cancelRequested.addEventListener('abort', onCancel, { once: true });
  return {
    expired,
    dispose: () => {
      life.cancelRequested.removeEventListener('abort', onCancel);
      clearTimeout(timer);
    },
  };
}
