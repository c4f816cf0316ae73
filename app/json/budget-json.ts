/** The budgets of agents, and the part of each that is used. */
import type { ModelUse } from '../../domain/agent/budget.ts';
import type { BudgetPlan } from '../../domain/plan/plan.ts';
import { usedOf } from '../../store/budget-view.ts';
import type { ItemAgent, RunView, StageView } from '../../store/run-view.ts';
import type { StageFacts } from '../runs/stage-facts.ts';

export interface BudgetJson {
  readonly limits: BudgetPlan;
  /** The used part; null if each item has a budget of its own. */
  readonly used: { readonly tokens: number; readonly turns: number; readonly costUsd: number | null } | null;
}

type Used = NonNullable<BudgetJson['used']>;

/** Returns the budget of a run; null if the run has no budget. */
export function budgetOfRun({ budget }: Pick<RunView, 'budget'>): BudgetJson | null {
  return budget === undefined ? null : { limits: budget.limits, used: toUsed(usedOf(budget)) };
}

/**
 * Returns the budget of a stage's latest attempt; null if it has no budget.
 * @param facts  used if the stage has not begun
 */
export function budgetOfStage(
  { budget, usage, items }: Pick<StageView, 'budget' | 'usage' | 'items'>,
  facts?: StageFacts,
): BudgetJson | null {
  const limits = budget ?? facts?.budget;
  if (limits === undefined) return null;
  if (items !== null || facts?.hasItems === true) return { limits, used: null };
  const { inputTokens = 0, outputTokens = 0, turns = 0, costUsd = null } = usage;
  return { limits, used: { tokens: inputTokens + outputTokens, turns, costUsd } };
}

/** Returns the budget of an item; null if the item has no budget. */
export function budgetOfItem({ budget, used }: Pick<ItemAgent, 'budget' | 'used'>): BudgetJson | null {
  return budget === undefined ? null : { limits: budget, used: toUsed(used) };
}

function toUsed({ inputTokens, outputTokens, turns, costUsd }: ModelUse): Used {
  return { tokens: inputTokens + outputTokens, turns, costUsd };
}
