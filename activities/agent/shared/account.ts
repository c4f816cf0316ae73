/** Computes what the agent of an attempt may still use, by the budget of its stage and the budget of its run. */
import { computeBudgetLeft, type ModelUse, sumUse, explainUnknownUse } from '../../../domain/agent/budget.ts';
import { type OverBudget, checkBudgetLeft, checkRunBudgetLeft } from '../../../domain/agent/limits.ts';
import type { AgentWork, BudgetPlan } from '../../../domain/plan/plan.ts';
import type { RunLedger } from './ledger.ts';
import type { BudgetMeter, ShareOfRun } from './meter.ts';

export interface AgentAccount {
  readonly work: Pick<AgentWork, 'llm' | 'budget'>;
  /** The ledger of the run; null: the run has no budget. */
  readonly ledger: RunLedger | null;
}

/** Returns the remaining budget; null if neither the stage nor its run has a budget. */
export function leftAfter({ work, ledger }: AgentAccount, used: ModelUse): BudgetPlan | null {
  if (work.budget === undefined && ledger === null) return null;
  return computeBudgetLeft(work.budget ?? {}, used);
}

/**
 * Returns the limit that is used up, or whose use is unknown, so that no further call may follow. Returns null if some
 * of each limit is left.
 */
export function findUsedUpLimit(
  { work, ledger }: AgentAccount,
  used: ModelUse,
  unpricedModels: readonly string[],
): OverBudget | null {
  const unknown = explainUnknownUse(work, unpricedModels);
  return (
    checkBudgetLeft(work.budget ?? {}, used) ??
    (unknown === null ? null : { code: 'agent/budget-unknown', words: unknown }) ??
    (ledger === null ? null : checkRunBudgetLeft(ledger.budget, sumUse(ledger.usedByOthers, used)))
  );
}

/** Returns the run's budget for a meter that starts after the agent has used `before`; null: the run has no budget. */
export function shareOfRun({ ledger }: AgentAccount, before: ModelUse): ShareOfRun | null {
  if (ledger === null) return null;
  return { budget: ledger.budget, usedBeside: () => sumUse(ledger.usedByOthers, before) };
}

/**
 * Checks the run's budget after an event with the agent's use is in the log. If two agents append at the same moment,
 * the agent whose event is last in the log sees both.
 */
export async function checkRun(
  { ledger }: Pick<AgentAccount, 'ledger'>,
  meter: BudgetMeter | null,
  eventId: string,
): Promise<void> {
  if (ledger === null) return;
  await ledger.reach(eventId);
  meter?.check();
}
