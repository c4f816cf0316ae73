/**
 * Heartbeats of an attempt, from a timer that runs until the attempt ends, and the meaning of a cancellation. Only a
 * cancel request stops work; after every other reason the attempt detaches from it.
 */
import { CancelledFailure, Context } from '@temporalio/activity';
import { DetachedError, toActivityFailure } from './failure.ts';

/** The interval at which the worker's throttle lets a heartbeat through. */
const BEAT_INTERVAL_MS = 1_000;

export interface AttemptLife {
  /**
   * The time at which the server scheduled this attempt, by the server's clock. If two attempts do the same work, the
   * later one counts.
   */
  readonly scheduledAtMs: number;
  /** Aborted with a DetachedError. After that the attempt must not stop work, append events or return a result. */
  readonly detached: AbortSignal;
  /** Aborted when a client cancelled the run or the stage. */
  readonly cancelRequested: AbortSignal;
  /** Aborted with either of the other two; for work whose result need not be kept. */
  readonly ended: AbortSignal;
  /** Runs `work` with each heartbeat until the attempt ends, and passes rejections to `onError`. */
  everyBeat(work: () => Promise<void>, onError: (error: unknown) => void): void;
  /** Detaches this attempt, because a newer attempt in the same process takes over. */
  detach(reason: string): void;
  /**
   * Sets the phase that the server shows at the pending activity, with the seconds since then. It is only for people;
   * no program reads it.
   */
  phase(name: string): void;
}

/** Runs an activity's body with heartbeats, and converts every error that it throws into a Temporal failure. */
export async function withHeartbeat<T>(body: (life: AttemptLife) => Promise<T>): Promise<T> {
  const context = Context.current();
  const detached = new AbortController();
  const cancelRequested = new AbortController();
  // Not `AbortSignal.any`, which costs a stage more than its heartbeats do.
  const ended = new AbortController();
  const abort = (controller: AbortController, reason: unknown): void => {
    controller.abort(reason);
    ended.abort(reason);
  };
  const beats: { work: () => Promise<void>; onError: (error: unknown) => void; running: boolean }[] = [];
  let phase = 'starting';
  let phaseSinceMs = Date.now();

  const onCancellation = (): void => {
    const details = context.cancellationDetails;
    if (details?.cancelRequested === true && !details.notFound) abort(cancelRequested, new Error('cancelled'));
    else abort(detached, new DetachedError(reasonOf(details)));
  };
  if (context.cancellationSignal.aborted) onCancellation();
  else context.cancellationSignal.addEventListener('abort', onCancellation, { once: true });

  const beat = (): void => {
    context.heartbeat({ phase, phaseSecs: Math.max(0, Math.round((Date.now() - phaseSinceMs) / 1_000)) });
    for (const entry of beats) {
      if (entry.running) continue;
      entry.running = true;
      entry
        .work()
        .catch(entry.onError)
        .finally(() => {
          entry.running = false;
        });
    }
  };
  // Send no heartbeat at once: the server counts from the attempt's start, so a stage that ends within the interval
  // needs no call.
  const timer = setInterval(beat, BEAT_INTERVAL_MS);
  try {
    return await body({
      scheduledAtMs: context.info.currentAttemptScheduledTimestampMs,
      detached: detached.signal,
      cancelRequested: cancelRequested.signal,
      ended: ended.signal,
      everyBeat: (work, onError) => void beats.push({ work, onError, running: false }),
      detach: (reason) => abort(detached, new DetachedError(reason)),
      phase: (name) => {
        if (name !== phase) phaseSinceMs = Date.now();
        phase = name;
      },
    });
  } catch (error) {
    if (detached.signal.aborted) throw toActivityFailure(detached.signal.reason);
    if (error === cancelRequested.signal.reason) throw new CancelledFailure('cancelled');
    throw toActivityFailure(error);
  } finally {
    clearInterval(timer);
    context.cancellationSignal.removeEventListener('abort', onCancellation);
  }
}

interface Reasons {
  readonly notFound?: boolean;
  readonly timedOut?: boolean;
  readonly workerShutdown?: boolean;
  readonly reset?: boolean;
  readonly paused?: boolean;
}

const REASONS = {
  notFound: 'the server no longer waited for it',
  timedOut: 'no heartbeat reached the server in time',
  workerShutdown: 'its worker was shut down',
  reset: 'it was reset',
  paused: 'it was paused',
} as const satisfies Record<keyof Reasons, string>;

function reasonOf(details: Reasons | undefined): string {
  const reasons = (Object.keys(REASONS) as (keyof Reasons)[]).filter((name) => details?.[name] === true);
  return reasons.length === 0 ? REASONS.workerShutdown : reasons.map((name) => REASONS[name]).join(', ');
}
