/**
 * Evaluates conditions. An author's expression runs over output of guests, so it runs in a thread that can be
 * terminated.
 */
import type { ConditionAnswer, ConditionValues, TextsAnswer } from '../../domain/language/expression/evaluate.ts';

/**
 * Evaluates one condition. A problem is the author's, for example a limit that was reached. The same question always
 * returns the same problem.
 * @throws Error if the condition cannot be evaluated now
 */
export type EvaluateCondition = (source: string, values: ConditionValues) => Promise<ConditionAnswer>;

/** Evaluates the texts of a command, one for each source. As with a condition, a problem is always the same. */
export type EvaluateTexts = (sources: readonly string[], values: ConditionValues) => Promise<TextsAnswer>;
