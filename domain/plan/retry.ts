/** Evaluates the author's `retry`: whether a failed attempt is tried again, and after which pause. */
import type { AnyErrorCode } from '../errors/error-code.ts';
import type { RetryPlan } from './plan.ts';

/** The exit code of a failed command, as `nonRetryable` names it. */
export const EXIT_CODE = /^exit:(0|[1-9]\d{0,2})$/;
export const MOST_EXIT_CODE = 255;

/** @param failures  failed attempts so far, at least one */
export function retryPauseMs({ backoffMs, factor = 1, maxBackoffMs }: RetryPlan, failures: number): number {
  const most = Math.min(maxBackoffMs ?? MOST_PAUSE_MS, MOST_PAUSE_MS);
  let pause = backoffMs;
  // Multiply step by step, because another JavaScript engine may compute a power with other last digits in a replay.
  for (let times = 1; times < failures && pause < most; times += 1) pause *= factor;
  return Math.round(Math.min(pause, most));
}

/** The longest pause if a spec sets no `max_secs`. */
const MOST_PAUSE_MS = 24 * 3_600_000;

/** @param exitCode  of the command; null if there is no command */
export function isWorthRetrying(
  { nonRetryable = [] }: RetryPlan,
  { code }: { readonly code: AnyErrorCode },
  exitCode: number | null,
): boolean {
  // A further attempt would read the same outputs again.
  if (code === 'stage/expression' || nonRetryable.includes(code)) return false;
  if (code !== 'stage/exit-nonzero' && code !== 'stage/out-of-memory' && code !== 'stage/disk-full') return true;
  // A command that runs out of memory or disk also has an exit code. Before these two failures had codes of their own,
  // they had the code `stage/exit-nonzero`.
  return !nonRetryable.includes('stage/exit-nonzero') && !nonRetryable.includes(`exit:${exitCode}`);
}
