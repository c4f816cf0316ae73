import type { ErrorCode } from '../domain/errors/codes.ts';
import type { AnyErrorCode } from '../domain/errors/error-code.ts';

/**
 * The side on which an error is repaired: `usage` is in the caller's request, `environment` in the machine or a server, `failed`
 * in the run.
 */
export type Fault = 'usage' | 'environment' | 'failed';

/** An error that the user can repair: it is shown as text with its remedy, never with a stack. */
export class AppError extends Error {
  readonly fault: Fault;
  readonly code: AnyErrorCode;
  /** The repair; shown on lines of its own. */
  readonly remedy: string | null;

  constructor(fault: Fault, code: AnyErrorCode, message: string, remedy: string | null = null, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'AppError';
    this.fault = fault;
    this.code = code;
    this.remedy = remedy;
  }
}

export function createUsageError(message: string, remedy: string | null = null): AppError {
  return new AppError('usage', 'cli/usage', message, remedy);
}

export function createEnvironmentError(code: ErrorCode, message: string, remedy: string | null = null): AppError {
  return new AppError('environment', code, message, remedy);
}
