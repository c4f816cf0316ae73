/** From a failed activity to what the run machine hears. */
import { ActivityFailure, ApplicationFailure, isCancellation, TimeoutFailure } from '@temporalio/workflow';
import { type AnyErrorCode, isLostVm, toErrorCode } from '../domain/errors/error-code.ts';
import type { MachineEvent } from '../domain/pipeline/event.ts';

export interface CodedReason {
  readonly code: AnyErrorCode;
  readonly message: string;
}

export function stageFailureEvent(
  error: unknown,
  stageId: string,
  execKey: string,
  cancelRequested: boolean,
): MachineEvent {
  if (isCancellation(error) || (cancelRequested && wouldBeTriedAgain(error)))
    return { type: 'stage-cancelled', stageId, execKey };
  const reason = reasonOf(error);
  return { type: isLostVm(reason.code) ? 'stage-lost' : 'stage-broken', stageId, execKey, ...reason };
}

export function reasonOf(error: unknown): CodedReason {
  if (isCancellation(error)) return { code: 'stage/cancelled', message: 'cancelled' };
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof ApplicationFailure) return { code: toErrorCode(cause.type), message: cause.message };
  if (cause instanceof TimeoutFailure) {
    // The last attempt's own failure says more than the time that has run out.
    const last = cause.cause instanceof ApplicationFailure ? `; the last attempt: ${cause.cause.message}` : '';
    return {
      code: 'host/unreachable',
      message: `no worker of the run's host finished the work in time (${cause.timeoutType})${last}`,
    };
  }
  return { code: 'internal/bug', message: cause instanceof Error ? cause.message : String(cause) };
}

/** But for the cancel: with one pending the server tries nothing again, be it a worker that died or a failure of its host. */
function wouldBeTriedAgain(error: unknown): boolean {
  if (!(error instanceof ActivityFailure)) return false;
  const { cause } = error;
  return cause instanceof TimeoutFailure || (cause instanceof ApplicationFailure && cause.nonRetryable !== true);
}
