/** The budget of a run, and what its agents have used of it: as they count it themselves, `activities/agent/shared/ledger.ts`. */
import { largestUse, type ModelUse, NO_USE, sumOfUse } from '../domain/agent/budget.ts';
import type { BudgetPlan } from '../domain/plan/plan.ts';
import type { RunEventBody } from '../domain/run/event.ts';

export interface BudgetView {
  readonly limits: BudgetPlan;
  /** By attempts that have ended. */
  readonly ended: ModelUse;
  /** By attempts that have no end so far, or never come to one, as those of lost VMs; by exec key. */
  readonly open: Readonly<Record<string, ModelUse>>;
}

/** What an attempt tells last stands, and nothing follows its end: so it is summed up there. */
export function withUse(view: BudgetView, body: RunEventBody): BudgetView {
  if (body.type === 'agent-usage') {
    const { execKey } = body;
    return { ...view, open: { ...view.open, [execKey]: largestUse(view.open[execKey] ?? NO_USE, useIn(body)) } };
  }
  if (body.type !== 'stage-finished') return view;
  const { [body.execKey]: used, ...open } = view.open;
  return used === undefined ? view : { ...view, ended: sumOfUse(view.ended, used), open };
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

/** By all attempts, those of items, of earlier visits and of lost VMs among them. */
export function usedOf({ ended, open }: BudgetView): ModelUse {
  return Object.values(open).reduce(sumOfUse, ended);
}
