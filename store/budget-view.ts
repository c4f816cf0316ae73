/** The budget of a run, and the use that its agents report. `activities/agent/shared/ledger.ts` enforces the budget. */
import { findLargestUse, type ModelUse, NO_USE, sumUse } from '../domain/agent/budget.ts';
import type { BudgetPlan } from '../domain/plan/plan.ts';
import type { RunEventBody } from '../domain/run/event.ts';

export interface BudgetView {
  readonly limits: BudgetPlan;
  /** By attempts that have ended. */
  readonly ended: ModelUse;
  /** By attempts without an end, by exec key. Attempts of lost VMs never get one. */
  readonly open: Readonly<Record<string, ModelUse>>;
}

/**
 * Keeps the largest use that an attempt reported. At the end of the attempt the sum of ended attempts takes it over,
 * because no report follows.
 */
export function withUse(view: BudgetView, body: RunEventBody): BudgetView {
  if (body.type === 'agent-usage') {
    const { execKey } = body;
    return { ...view, open: { ...view.open, [execKey]: findLargestUse(view.open[execKey] ?? NO_USE, useIn(body)) } };
  }
  if (body.type !== 'stage-finished') return view;
  const { [body.execKey]: used, ...open } = view.open;
  return used === undefined ? view : { ...view, ended: sumUse(view.ended, used), open };
}

function useIn({
  inputTokens,
  outputTokens,
  cachedInputTokens,
  turns,
  costUsd,
}: Extract<RunEventBody, { type: 'agent-usage' }>): ModelUse {
  return { inputTokens, outputTokens, cachedInputTokens, turns, costUsd };
}

/** The use by all attempts, including attempts of items, of earlier visits and of lost VMs. */
export function usedOf({ ended, open }: BudgetView): ModelUse {
  return Object.values(open).reduce(sumUse, ended);
}
