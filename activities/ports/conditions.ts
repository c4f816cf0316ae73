/** Deciding conditions. What an author wrote is evaluated over what guests printed, so it happens where it can be ended. */
import type { ConditionAnswer, ConditionValues, TextsAnswer } from '../../domain/language/expression/evaluate.ts';

/**
 * A problem is the author's: a limit that was reached, for example. It comes back the same however often it is asked.
 * @throws Error when nothing can be said of the condition now
 */
export type EvaluateCondition = (source: string, values: ConditionValues) => Promise<ConditionAnswer>;

/** Texts that stand in a command, one for each source. As with a condition, a problem comes back the same. */
export type EvaluateTexts = (sources: readonly string[], values: ConditionValues) => Promise<TextsAnswer>;
