/** The author's `retry`: whether a failure is tried again, and after which pause. */
import type { AnyErrorCode } from '../errors/error-code.ts';
import type { RetryPlan } from './plan.ts';

/** A failed command by its exit code, as `nonRetryable` names it. */
export const EXIT_CODE = /^exit:(0|[1-9]\d{0,2})$/;
export const MOST_EXIT_CODE = 255;

/** @param failures  attempts that have failed so far, at least one */
export function retryPauseMs({ backoffMs, factor = 1, maxBackoffMs }: RetryPlan, failures: number): number {
  const most = Math.min(maxBackoffMs ?? MOST_PAUSE_MS, MOST_PAUSE_MS);
  let pause = backoffMs;
  // Multiplied step by step: a replay on another engine may get other last digits of a power.
  for (let times = 1; times < failures && pause < most; times += 1) pause *= factor;
  return Math.round(Math.min(pause, most));
}

/** Of a spec that says no `max_secs`. */
const MOST_PAUSE_MS = 24 * 3_600_000;

/** @param exitCode  of the command; null where there is none */
export function isWorthRetrying(
  { nonRetryable = [] }: RetryPlan,
  { code }: { readonly code: AnyErrorCode },
  exitCode: number | null,
): boolean {
  // It would read the same outputs again.
  if (code === 'stage/expression' || nonRetryable.includes(code)) return false;
  if (code !== 'stage/exit-nonzero' && code !== 'stage/out-of-memory' && code !== 'stage/disk-full') return true;
  // A command without memory or room has an exit code too, and had no other code before there was one for it.
  return !nonRetryable.includes('stage/exit-nonzero') && !nonRetryable.includes(`exit:${exitCode}`);
}
