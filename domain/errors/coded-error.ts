import type { AnyErrorCode } from './error-code.ts';

/** A broken world with a code. `activities/failure.ts` is the one place that turns it into a Temporal failure. */
export class CodedError extends Error {
  /** Of this list; one of another build only where a record holds it. */
  readonly code: AnyErrorCode;
  /** For codes that Temporal tries again: when; the default is the retry policy's own backoff. */
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
