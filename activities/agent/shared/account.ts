/** What the agent of an attempt may still use: by the budget of its stage, and by that of its run. */
import { budgetLeft, type ModelUse, sumOfUse, explainUnknownUse } from '../../../domain/agent/budget.ts';
import { type OverBudget, checkBudgetLeft, checkRunBudgetLeft } from '../../../domain/agent/limits.ts';
import type { AgentWork, BudgetPlan } from '../../../domain/plan/plan.ts';
import type { RunLedger } from './ledger.ts';
import type { BudgetMeter, ShareOfRun } from './meter.ts';

export interface AgentAccount {
  readonly work: Pick<AgentWork, 'llm' | 'budget'>;
  /** Of the run; null: it has no budget. */
  readonly ledger: RunLedger | null;
}

/** What the agent may use after this; null: neither its stage nor its run has a budget. */
export function leftAfter({ work, ledger }: AgentAccount, used: ModelUse): BudgetPlan | null {
  if (work.budget === undefined && ledger === null) return null;
  return budgetLeft(work.budget ?? {}, used);
}

/** The limit that is used up, or whose use is unknown, so that the agent is asked nothing more; null: something of each limit is left. */
export function findUsedUpLimit(
  { work, ledger }: AgentAccount,
  used: ModelUse,
  unpricedModels: readonly string[],
): OverBudget | null {
  const unknown = explainUnknownUse(work, unpricedModels);
  return (
    checkBudgetLeft(work.budget ?? {}, used) ??
    (unknown === null ? null : { code: 'agent/budget-unknown', words: unknown }) ??
    (ledger === null ? null : checkRunBudgetLeft(ledger.budget, sumOfUse(ledger.usedByOthers, used)))
  );
}

/** For a meter that begins when the agent has used `before`; null: the run has no budget. */
export function shareOfRun({ ledger }: AgentAccount, before: ModelUse): ShareOfRun | null {
  if (ledger === null) return null;
  return { budget: ledger.budget, usedBeside: () => sumOfUse(ledger.usedByOthers, before) };
}

/**
 * Checks the run's budget once an event with the agent's use is in the log. If two agents append at the same moment, the one whose
 * event is last in the log sees both.
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
