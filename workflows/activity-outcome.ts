/** Converts the end of an activity to an event for the run machine. */
import { ActivityFailure, ApplicationFailure, isCancellation, TimeoutFailure } from '@temporalio/workflow';
import { type AnyErrorCode, isLostVm, toErrorCode } from '../domain/errors/error-code.ts';
import type { MachineEvent } from '../domain/pipeline/event.ts';
import { readStageResult } from '../domain/run/read-stage-result.ts';
import type { StageResult } from '../domain/run/stage-result.ts';

export interface CodedReason {
  readonly code: AnyErrorCode;
  readonly message: string;
}

/** The event for an answer of `runStage`. */
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

/** Reads the result of a failed stage. Its activity fails, and the failure carries the result. */
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
    // The failure of the last attempt explains more than the timeout.
    const last = cause.cause instanceof ApplicationFailure ? `; the last attempt: ${cause.cause.message}` : '';
    return {
      code: 'host/unreachable',
      message: `no worker of the run's host finished the work in time (${cause.timeoutType})${last}`,
    };
  }
  return { code: 'internal/bug', message: cause instanceof Error ? cause.message : String(cause) };
}

/**
 * Whether the server would retry without the cancel. With a pending cancel the server retries nothing, neither a worker
 * that died nor a failure of its host.
 */
function wouldBeTriedAgain(error: unknown): boolean {
  if (!(error instanceof ActivityFailure)) return false;
  const { cause } = error;
  return cause instanceof TimeoutFailure || (cause instanceof ApplicationFailure && cause.nonRetryable !== true);
}
