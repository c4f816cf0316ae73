/** From a failed activity to the event that the run machine takes. */
import { ActivityFailure, ApplicationFailure, isCancellation, TimeoutFailure } from '@temporalio/workflow';
import { type AnyErrorCode, isLostVm, toErrorCode } from '../domain/errors/error-code.ts';
import type { MachineEvent } from '../domain/pipeline/event.ts';
import { readStageResult } from '../domain/run/read-stage-result.ts';
import type { StageResult } from '../domain/run/stage-result.ts';

export interface CodedReason {
  readonly code: AnyErrorCode;
  readonly message: string;
}

/** Of a value that `runStage` answered with. */
export function stageResultEvent(value: unknown, stageId: string, execKey: string): MachineEvent {
  const result = readStageResult(value, stageId, execKey);
  if (result !== null) return { type: 'stage-finished', result };
  return {
    type: 'stage-broken',
    stageId,
    execKey,
    code: 'internal/bug',
    message: `runStage answered with no result of ${execKey}`,
  };
}

export function stageFailureEvent(
  error: unknown,
  stageId: string,
  execKey: string,
  cancelRequested: boolean,
): MachineEvent {
  const result = readFailedResult(error, stageId, execKey);
  if (result !== null) return { type: 'stage-finished', result };
  if (isCancellation(error) || (cancelRequested && wouldBeTriedAgain(error)))
    return { type: 'stage-cancelled', stageId, execKey };
  const reason = reasonOf(error);
  return { type: isLostVm(reason.code) ? 'stage-lost' : 'stage-broken', stageId, execKey, ...reason };
}

/** A failed stage is a failed activity, which carries its result. */
function readFailedResult(error: unknown, stageId: string, execKey: string): StageResult | null {
  const cause = error instanceof ActivityFailure ? error.cause : null;
  if (!(cause instanceof ApplicationFailure)) return null;
  const result = readStageResult(cause.details?.[0], stageId, execKey);
  return result?.outcome === 'failed' ? result : null;
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
