/** Checks which limit of a budget is exceeded or used up, and describes it. */
import type { AnyErrorCode } from '../errors/error-code.ts';
import type { BudgetPlan } from '../plan/plan.ts';
import { computeBudgetLeft, type ModelUse } from './budget.ts';

export interface OverBudget {
  readonly code: AnyErrorCode;
  /** The text after "the agent of stage …". */
  readonly words: string;
}

/** Checks a command of an agent against the rest of its budget. Null: it is within its limits. */
export function checkBudget(budget: BudgetPlan, used: ModelUse): OverBudget | null {
  const left = computeBudgetLeft(budget, used);
  const tokens = used.inputTokens + used.outputTokens;
  if ((left.maxTurns ?? 0) < 0)
    return {
      code: 'agent/budget-turns',
      words: `made ${used.turns} calls of the model; ${budget.maxTurns} were left to it`,
    };
  if ((left.maxTokens ?? 0) < 0)
    return { code: 'agent/budget-tokens', words: `used ${tokens} tokens; ${budget.maxTokens} were left to it` };
  if ((left.maxCostUsd ?? 0) < 0)
    return {
      code: 'agent/budget-cost',
      words: `cost $${(used.costUsd ?? 0).toFixed(4)}; $${budget.maxCostUsd!.toFixed(4)} were left to it`,
    };
  return null;
}

/** Null: the agents of the run are within its budget. */
export function checkRunBudget(budget: BudgetPlan, used: ModelUse): OverBudget | null {
  const which = limitBelow(RUN, budget, used, (left) => left < 0);
  return which === null ? null : { ...which, words: `was stopped: ${which.words}` };
}

/** Checks whether a further agent may start; null: each limit has some left. */
export function checkRunBudgetLeft(budget: BudgetPlan, used: ModelUse): OverBudget | null {
  const which = limitBelow(RUN, budget, used, (left) => left <= 0);
  return which === null ? null : { ...which, words: `did not start: ${which.words}` };
}

/** Checks whether an agent may get a further command; null: each limit has some left. */
export function checkBudgetLeft(budget: BudgetPlan, used: ModelUse): OverBudget | null {
  return limitBelow(ATTEMPT, budget, used, (left) => left <= 0);
}

const RUN = {
  who: 'agents of the run have',
  turns: 'run/budget-turns',
  tokens: 'run/budget-tokens',
  cost: 'run/budget-cost',
} as const;
const ATTEMPT = {
  who: 'has',
  turns: 'agent/budget-turns',
  tokens: 'agent/budget-tokens',
  cost: 'agent/budget-cost',
} as const;

function limitBelow(
  { who, turns, tokens, cost }: typeof RUN | typeof ATTEMPT,
  budget: BudgetPlan,
  used: ModelUse,
  isBelow: (left: number) => boolean,
): OverBudget | null {
  const left = computeBudgetLeft(budget, used);
  if (left.maxTurns !== undefined && isBelow(left.maxTurns))
    return { code: turns, words: `${who} made ${used.turns} calls of the model, of ${budget.maxTurns} in its budget` };
  if (left.maxTokens !== undefined && isBelow(left.maxTokens))
    return {
      code: tokens,
      words: `${who} used ${used.inputTokens + used.outputTokens} tokens, of ${budget.maxTokens} in its budget`,
    };
  if (left.maxCostUsd !== undefined && isBelow(left.maxCostUsd))
    return {
      code: cost,
      words: `${who} cost $${(used.costUsd ?? 0).toFixed(4)}, of $${budget.maxCostUsd!.toFixed(4)} in its budget`,
    };
  return null;
}
