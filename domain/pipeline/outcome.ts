/** What a run has come to, once nothing of it is open. */
import type { RunOutcome } from '../run/event.ts';
import type { MachinePlan } from './machine-plan.ts';
import type { PlanIndex } from './plan-index.ts';
import { rowAt } from './rows.ts';
import type { NamedOutput, RunState, StageState } from './state.ts';

export function outcomeOf(plan: MachinePlan, index: PlanIndex, state: RunState): RunOutcome {
  const { firstFailure, gaveUp, cancelRequested } = state;
  const cut = state.stages.some((row) => row.some(isCut));
  const output =
    plan.output.kind === 'stage' ? (rowAt(state.stages, index.outputStages[0]!).result?.output ?? null) : null;
  if (cut && gaveUp !== null) return { state: 'failed', failedStage: null, failure: gaveUp, output };
  // A cancel that came after the last result changes nothing.
  const end =
    cut && (cancelRequested || firstFailure === null) ? 'cancelled' : firstFailure === null ? 'succeeded' : 'failed';
  return { state: end, failedStage: firstFailure?.stage ?? null, failure: firstFailure?.failure ?? null, output };
}

/** Something that the run was to do was not done. */
function isCut({ phase, skipCause }: StageState): boolean {
  return phase === 'cancelled' || (phase === 'skipped' && skipCause !== 'unneeded');
}

/** Null also when a part is missing: half a merge would be taken for a whole one. */
export function mergeOf(plan: MachinePlan, index: PlanIndex, state: RunState): readonly NamedOutput[] | null {
  if (plan.output.kind === 'stage') return null;
  const parts = index.outputStages.flatMap((stage) => {
    const output = rowAt(state.stages, stage).result?.output ?? null;
    return output === null ? [] : [{ name: plan.stages[stage]!.id, output }];
  });
  return parts.length === index.outputStages.length ? parts : null;
}
