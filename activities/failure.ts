/** The one place that turns errors into Temporal failures. */
import { ApplicationFailure, CancelledFailure } from '@temporalio/activity';
import { CodedError, isCodedError } from '../domain/errors/coded-error.ts';
import { retryOf } from '../domain/errors/error-code.ts';

/** Thrown by an attempt that let go of its work so that another attempt can take it up. */
export class DetachedError extends Error {
  readonly reason: string;

  constructor(reason: string) {
    super(`this attempt let go (${reason}); the work goes on and the next attempt takes it up`);
    this.name = 'DetachedError';
    this.reason = reason;
  }
}

/** Makes what an activity throws: always an ApplicationFailure whose type is a code, or the cancellation itself. */
export function toActivityFailure(error: unknown): Error {
  if (error instanceof CancelledFailure || error instanceof ApplicationFailure) return error;
  if (error instanceof DetachedError) {
    return ApplicationFailure.create({
      type: 'attempt/detached',
      message: error.message,
      nonRetryable: false,
      nextRetryDelay: 200,
      category: 'BENIGN',
    });
  }
  const coded = isCodedError(error) ? error : codeOfSystemError(error);
  if (coded !== null) {
    return ApplicationFailure.create({
      type: coded.code,
      message: coded.message,
      // A stale fence is tried again: if the server still waits for this attempt, a zombie has overtaken it, and
      // the next attempt takes over from that.
      nonRetryable: retryOf(coded.code) !== 'temporal',
      ...(coded.nextRetryDelayMs === undefined ? {} : { nextRetryDelay: coded.nextRetryDelayMs }),
      ...(coded.code === 'vm/no-capacity' ? { category: 'BENIGN' as const } : {}),
    });
  }
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  const failure = ApplicationFailure.create({ type: 'internal/bug', message, nonRetryable: true });
  if (error instanceof Error && error.stack !== undefined) failure.stack = error.stack;
  return failure;
}

/** An errno that reached an activity is a host whose files can't be used now; everything else without a code is a bug. */
function codeOfSystemError(error: unknown): CodedError | null {
  if (!(error instanceof Error) || !('code' in error) || !('syscall' in error)) return null;
  return new CodedError('store/io', `${error.message}: look at disk space and permissions of the state folder`, {
    cause: error,
  });
}
