/**
 * Makes the failures of workflows and of messages to them; no other place does. The type is an error code, and the
 * failure is final.
 */
import { ApplicationFailure, CancelledFailure } from '@temporalio/workflow';
import { type AnyErrorCode, toErrorCode } from '../domain/errors/error-code.ts';
import type { RunOutcome } from '../domain/run/event.ts';

export function workflowFailure(code: AnyErrorCode, message: string, ...details: unknown[]): ApplicationFailure {
  return withoutStack(ApplicationFailure.create({ type: code, message, nonRetryable: true, details }));
}

/** Standard error is only in the outcome, which is a payload: a codec does not cover messages of failures. */
export function runFailure(outcome: RunOutcome): ApplicationFailure {
  const { failure, failedStage } = outcome;
  if (failure === null) return workflowFailure(toErrorCode(undefined), 'the run failed', outcome);
  const isNamed = failedStage === null || failure.message.startsWith(`stage ${failedStage} `);
  const message = isNamed ? failure.message : `stage ${failedStage}: ${failure.message}`;
  return workflowFailure(toErrorCode(failure.code), message, outcome);
}

/** Returns the failure of a cancelled workflow. */
export function workflowCancelled(message: string, ...details: unknown[]): CancelledFailure {
  return withoutStack(new CancelledFailure(message, details));
}

/** A history contains the reason of a failure, but not the folders of a host's code. */
function withoutStack<T extends Error>(failure: T): T {
  failure.stack = '';
  return failure;
}
