/** The errors of calls about sessions of step machines. */
import {
  ApplicationFailure,
  CancelledFailure,
  QueryNotRegisteredError,
  TerminatedFailure,
  WorkflowFailedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { type AnyErrorCode, toErrorCode } from '../../domain/errors/error-code.ts';
import { SESSION_TASK_QUEUE } from '../../workflows/messages.ts';

/** The session could not be opened, or has failed: `code` is one of the error codes. */
export class SessionFailedError extends Error {
  readonly code: AnyErrorCode;
  constructor(code: AnyErrorCode, message: string) {
    super(message);
    this.name = 'SessionFailedError';
    this.code = code;
  }
}

export class SessionExistsError extends Error {
  constructor(session: string) {
    super(`session ${session} already exists`);
    this.name = 'SessionExistsError';
  }
}

export class NoSuchSessionError extends Error {
  constructor(session: string) {
    super(`there is no session ${session}`);
    this.name = 'NoSuchSessionError';
  }
}

export class NoSessionWorkerError extends Error {
  constructor() {
    super(`no worker polls the session task queue ${SESSION_TASK_QUEUE}`);
    this.name = 'NoSessionWorkerError';
  }
}

export function failureOf(error: unknown): unknown {
  const cause =
    error instanceof WorkflowUpdateFailedError || error instanceof WorkflowFailedError ? error.cause : undefined;
  if (cause instanceof ApplicationFailure) return new SessionFailedError(toErrorCode(cause.type), cause.message);
  if (cause instanceof CancelledFailure || cause instanceof TerminatedFailure)
    return new SessionFailedError('session/failed', cause.message);
  return error;
}

/** Converts the error if no workflow, or one of another type, has the id; returns any other error unchanged. */
export function toNoSuchSessionError(session: string, error: unknown): unknown {
  return error instanceof WorkflowNotFoundError || error instanceof QueryNotRegisteredError
    ? new NoSuchSessionError(session)
    : error;
}
