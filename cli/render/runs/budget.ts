/** Renders the budgets of agents, and how much of them is used. */
import type { ModelUse } from '../../../domain/agent/budget.ts';
import type { BudgetPlan } from '../../../domain/plan/plan.ts';
import type { ItemAgent, RunView, StageView } from '../../../store/run-view.ts';
import { usedOf } from '../../../store/budget-view.ts';
import type { StageFacts } from '../../../app/runs/stage-facts.ts';

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

/**
 * Renders `41,200 of 100,000 tokens, 3 of 40 turns, $0.31 of $2.00`; for each item, and for a plan, only the limits.
 */
export function renderBudget({ limits, used }: BudgetJson): string {
  const { maxTokens, maxTurns, maxCostUsd } = limits;
  const part = (most: string, taken: string): string => (used === null ? most : `${taken} of ${most}`);
  const parts = [
    ...(maxTokens === undefined ? [] : [`${part(count(maxTokens), count(used?.tokens ?? 0))} tokens`]),
    ...(maxTurns === undefined ? [] : [`${part(count(maxTurns), count(used?.turns ?? 0))} turns`]),
    ...(maxCostUsd === undefined ? [] : [part(dollars(maxCostUsd), costIn(used))]),
  ];
  return parts.join(', ');
}

/**
 * Renders the cost, or `$?`: Claude Code reports a cost only at the end of a turn, and never for a model without a
 * price.
 */
function costIn(used: BudgetJson['used']): string {
  const { costUsd = null, turns = 0 } = used ?? {};
  return costUsd === null && turns > 0 ? '$?' : dollars(costUsd ?? 0);
}

function count(value: number): string {
  return value.toLocaleString('en-US');
}

/** Renders dollars in cents, or with four digits if cents would round the amount. */
function dollars(usd: number): string {
  const isWholeCents = Math.abs(usd * 100 - Math.round(usd * 100)) < 1e-6;
  return `$${usd.toFixed(usd >= 1 || isWholeCents ? 2 : 4)}`;
}
