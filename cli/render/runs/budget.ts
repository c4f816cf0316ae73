/** Renders the budgets of agents, and how much of them is used. */
import type { BudgetJson } from '../../../app/json/budget-json.ts';

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
