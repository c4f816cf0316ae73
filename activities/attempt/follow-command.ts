/** Follows a command to its end: its output into the log, a cancel request to its process. */
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Redactor } from '../../domain/security/redactor.ts';
import type { ActivityDeps } from '../deps.ts';
import type { AttemptLife } from '../heartbeat.ts';
import { pumpOutput } from './output-pump.ts';
import type { Exec, ExecExit, Sandbox } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';

/** Time that a command has between SIGTERM and SIGKILL when its run is cancelled. */
export const TERM_GRACE_MS = 2_000;
/** A command that a cancel reached and whose end the VM does not report is taken for dead with its VM. */
export const KILL_LIMIT_MS = 5_000;

export interface FollowContext {
  readonly deps: Pick<ActivityDeps, 'events' | 'now' | 'disk'>;
  readonly request: StageRequest;
  readonly life: AttemptLife;
}

/** @param stop aborted to end it, and by one that fails, which ends the others */
export type Listen = (stop: AbortController) => Promise<void>;

/** Until the command's end and its last stored byte. A cancel request ends the command, not the following. */
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

/** As `follow`, with further readers of the output; the command has ended when all of them have. */
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
  /** Rejects when a killed command does not end. */
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
