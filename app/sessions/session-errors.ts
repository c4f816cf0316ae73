/** Errors of sessions, with the side that repairs them and the remedy. */
import {
  NoSessionWorkerError,
  NoSuchSessionError,
  SessionExistsError,
  SessionFailedError,
} from '../../client/sessions/errors.ts';
import { isUnavailable, serverMessageOf } from '../../client/temporal/unavailable.ts';
import type { ErrorCode } from '../../domain/errors/codes.ts';
import { remedyOf } from '../../domain/errors/error-code.ts';
import { AppError, createEnvironmentError } from '../app-error.ts';
import { CHOOSE_ID, LIST_SESSIONS } from './session-remedies.ts';

/** The codes for a caller: a command has one code for all its mistakes. */
export interface SessionCodes {
  readonly none: ErrorCode;
  readonly exists: ErrorCode;
}

export const COMMAND_CODES: SessionCodes = { none: 'cli/usage', exists: 'cli/usage' };
export const API_SESSION_CODES: SessionCodes = { none: 'api/no-session', exists: 'api/session-exists' };

const USAGE_CODES: ReadonlySet<string> = new Set<ErrorCode>(['skill/params', 'skill/unknown', 'skill/ambiguous']);

/** @returns the same error if no remedy is known */
export function toSessionError(error: unknown, codes: SessionCodes): unknown {
  if (error instanceof NoSuchSessionError) return new AppError('usage', codes.none, error.message, LIST_SESSIONS);
  if (error instanceof SessionExistsError) return new AppError('usage', codes.exists, error.message, CHOOSE_ID);
  if (error instanceof NoSessionWorkerError)
    return createEnvironmentError('skill/unknown', error.message, 'Start one: voidbox worker --skills DIR');
  if (isUnavailable(error))
    return createEnvironmentError(
      'cli/no-server',
      `the connection to the Temporal server was lost: ${serverMessageOf(error)}`,
      'Run it again: the same answer to the same --turn counts once. Check the server: voidbox ps',
    );
  if (error instanceof SessionFailedError) {
    const fault =
      error.code === 'skill/variable-missing' ? 'environment' : USAGE_CODES.has(error.code) ? 'usage' : 'failed';
    return new AppError(fault, error.code, error.message, remedyOf(error.code));
  }
  return error;
}
