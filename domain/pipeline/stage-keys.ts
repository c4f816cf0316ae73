/** The keys of attempts and timers of a run. */
import { formatAttempt } from '../run/attempt.ts';

/** The key of an attempt of the plan's own stage: the executor of an item's commands adds the item's instance. */
export function execKeyOf(stage: string, attempt: number): string {
  return formatAttempt({ stage, instance: [], attempt });
}

/** The timer of the pause after a failed attempt. */
export function timerId(stage: string, attempt: number): string {
  return `retry/${stage}/${attempt}`;
}

/** The timer of the time that stages with `finally` have. */
export const FINALLY_TIMER = 'finally';
