import { ERROR_CODES } from '../../../errors/codes.ts';
import { isErrorCode } from '../../../errors/error-code.ts';
import { RETRY_DEFAULTS } from '../../../plan/defaults.ts';
import { PLAN_LIMITS, type RetryPlan } from '../../../plan/plan.ts';
import { EXIT_CODE, MOST_EXIT_CODE } from '../../../plan/retry.ts';
import { applyScale, RANGES, SCALES } from '../../grammar/values.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { StageSpec } from '../../read/spec.ts';
import type { Located } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';

type RetrySpec = StageSpec['retry'];

/** Leaves absent keys out of the plan, so that plans without them do not change. */
export function compileRetry(retry: RetrySpec, what: string, problems: Problems): RetryPlan {
  if (retry === null) return RETRY_DEFAULTS;
  const factor = retry.factor ?? 1;
  const most = applyScale(RANGES.backoffSecs.max, SCALES.msPerSecond);
  const maxBackoffMs = retry.maxMs ?? most;
  if ((factor !== 1 || maxBackoffMs !== most) && retry.initialMs === null && retry.backoffMs === null)
    problems.warning(
      'spec/bad-value',
      retry.at,
      `\`retry\` of ${what} has \`${factor === 1 ? 'max_secs' : 'backoff'}\` and no \`initial_secs\`: there is no pause`,
      'add `initial_secs`, the first pause in seconds',
    );
  const nonRetryable = retry.nonRetryable.map(({ value }) => value);
  checkFailures(retry.nonRetryable, what, problems);
  return {
    maxAttempts: retry.maxAttempts ?? RETRY_DEFAULTS.maxAttempts,
    backoffMs: retry.backoffMs ?? retry.initialMs ?? RETRY_DEFAULTS.backoffMs,
    ...(factor === 1 ? {} : { factor }),
    ...(maxBackoffMs === most ? {} : { maxBackoffMs }),
    ...(nonRetryable.length === 0 ? {} : { nonRetryable }),
  };
}

function checkFailures(items: readonly Located<string>[], what: string, problems: Problems): void {
  const over = items[PLAN_LIMITS.nonRetryable];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over.at,
      `\`non_retryable\` of ${what} has ${items.length} items; at most ${PLAN_LIMITS.nonRetryable} are allowed`,
      'remove some',
    );
  for (const { value, at } of items) {
    const exit = EXIT_CODE.exec(value)?.[1];
    if (exit === undefined ? isErrorCode(value) : Number(exit) <= MOST_EXIT_CODE) continue;
    problems.error(
      'spec/bad-value',
      at,
      `\`non_retryable\` of ${what} names ${quote(value)}${problems.suggest(value, CODES)}`,
      `write an error code, such as \`stage/timeout\` (docs/reference/errors.md has all), or \`exit:N\` with N from 0 to ${MOST_EXIT_CODE}`,
    );
  }
}

/** Codes of stages come first, because a suggestion considers only the first ones. */
const CODES = [
  ...Object.keys(ERROR_CODES).filter((code) => code.startsWith('stage/')),
  ...Object.keys(ERROR_CODES).filter((code) => !code.startsWith('stage/')),
];
