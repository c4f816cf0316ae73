/** The one place that makes a failure of a workflow or of a message to it: its type is an error code, and it is final. */
import { ApplicationFailure } from '@temporalio/workflow';
import type { AnyErrorCode } from '../domain/errors/error-code.ts';

export function workflowFailure(code: AnyErrorCode, message: string, ...details: unknown[]): ApplicationFailure {
  return ApplicationFailure.create({ type: code, message, nonRetryable: true, details });
}
