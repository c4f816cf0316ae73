/** The one place that makes a failure of a workflow or of a message to it: its type is an error code, and it is final. */
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

/** What a workflow ends with that was cancelled. */
export function workflowCancelled(message: string, ...details: unknown[]): CancelledFailure {
  return withoutStack(new CancelledFailure(message, details));
}

/** A history has to say what went wrong, and not where on a host the code lies that says so. */
function withoutStack<T extends Error>(failure: T): T {
  failure.stack = '';
  return failure;
}
