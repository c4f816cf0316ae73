/** The one place that turns errors into Temporal failures. */
import { ApplicationFailure, CancelledFailure } from '@temporalio/activity';
import { CodedError, isCodedError } from '../domain/errors/coded-error.ts';
import { type AnyErrorCode, retryOf } from '../domain/errors/error-code.ts';
import type { StageResult } from '../domain/run/stage-result.ts';
import { cutText } from '../domain/units/cut-text.ts';
import { cutFolders } from '../domain/security/cut-folders.ts';

/** Thrown by an attempt that released its work, so that another attempt can take the work over. */
export class DetachedError extends Error {
  readonly reason: string;

  constructor(reason: string) {
    super(`this attempt let go (${reason}); the work continues, and the next attempt takes it over`);
    this.name = 'DetachedError';
    this.reason = reason;
  }
}

/**
 * These failures are no fault of the worker: VMs wait for room, the service starts, or an operator has reset a run that
 * has ended.
 */
const EXPECTED: ReadonlySet<AnyErrorCode> = new Set<AnyErrorCode>(['vm/no-capacity', 'host/no-service', 'run/ended']);

/**
 * Converts any error into the failure that an activity throws: an ApplicationFailure whose type is a code, or the
 * cancellation itself.
 */
export function toActivityFailure(error: unknown): Error {
  if (error instanceof CancelledFailure || error instanceof ApplicationFailure) return error;
  if (error instanceof DetachedError) {
    return withoutStack({
      type: 'attempt/detached',
      message: error.message,
      nonRetryable: false,
      nextRetryDelay: 200,
      category: 'BENIGN',
    });
  }
  const coded = isCodedError(error) ? error : codeOfSystemError(error);
  if (coded !== null) {
    return withoutStack({
      type: coded.code,
      message: coded.message,
      // Retry after a stale fence. If the server still waits for this attempt, an obsolete attempt has overtaken it,
      // and the next attempt takes over from the obsolete one.
      nonRetryable: retryOf(coded.code) !== 'temporal',
      ...(coded.nextRetryDelayMs === undefined ? {} : { nextRetryDelay: coded.nextRetryDelayMs }),
      ...(EXPECTED.has(coded.code) ? { category: 'BENIGN' as const } : {}),
    });
  }
  const message = cutFolders(error instanceof Error ? `${error.name}: ${error.message}` : String(error));
  const failure = withoutStack({ type: 'internal/bug', message, nonRetryable: true });
  if (error instanceof Error && error.stack !== undefined) failure.stack = cutText(cutFolders(error.stack));
  return failure;
}

/**
 * Returns the result of a failed attempt as a failure, so that Temporal's own tools show a failed stage as failed. Only
 * the details contain standard error: a payload codec encodes details, but not messages.
 */
export function toStageFailure(result: StageResult): ApplicationFailure {
  const { stage, failure } = result;
  return withoutStack({
    type: failure?.code ?? 'stage/exit-nonzero',
    message: failure?.message ?? `stage ${stage} failed`,
    // The run machine applies the retries of the author, so Temporal must not retry.
    nonRetryable: true,
    category: 'BENIGN',
    details: [result],
  });
}

type FailureOptions = Parameters<typeof ApplicationFailure.create>[0] & { readonly message: string };

/**
 * Creates a failure without a stack: the code, its message and the place in it tell the user what to do. The message is
 * cut to the length of an event's text, and no path of the host's code enters a history.
 */
function withoutStack(options: FailureOptions): ApplicationFailure {
  const failure = ApplicationFailure.create({ ...options, message: cutText(options.message) });
  failure.stack = '';
  return failure;
}

/**
 * An errno that reaches an activity means that the host's files cannot be used now. Every other error without a code is
 * a bug.
 */
function codeOfSystemError(error: unknown): CodedError | null {
  if (!(error instanceof Error) || !('code' in error) || !('syscall' in error)) return null;
  return new CodedError('store/io', `${error.message}: check disk space and permissions of the state folder`, {
    cause: error,
  });
}
