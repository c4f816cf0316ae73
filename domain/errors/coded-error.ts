import type { AnyErrorCode } from './error-code.ts';

/**
 * An error with a code for a failure outside of the spec. `activities/failure.ts` is the one place that turns it into a
 * Temporal failure.
 */
export class CodedError extends Error {
  /** A code of this build's list; a code of another build only if a record contains it. */
  readonly code: AnyErrorCode;
  /** The delay of the next try by Temporal; the default is the backoff of the retry policy. */
  readonly nextRetryDelayMs: number | undefined;

  constructor(
    code: AnyErrorCode,
    message: string,
    options: { readonly cause?: unknown; readonly nextRetryDelayMs?: number } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'CodedError';
    this.code = code;
    this.nextRetryDelayMs = options.nextRetryDelayMs;
  }
}

export function isCodedError(error: unknown): error is CodedError {
  return error instanceof CodedError;
}
