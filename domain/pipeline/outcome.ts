/** The outcome of a run, once no stage of it is open. */
import type { RunOutcome } from '../run/event.ts';
import type { MachinePlan } from './machine-plan.ts';
import type { PlanIndex } from './plan-index.ts';
import { rowAt } from './rows.ts';
import type { NamedOutput, RunState, StageState } from './state.ts';

export function outcomeOf(plan: MachinePlan, index: PlanIndex, state: RunState): RunOutcome {
  const { firstFailure, gaveUp, cancelRequested } = state;
  // A skipped stage in a part whose failure is tolerated is tolerated too.
  const isCovered = ({ skipCause }: StageState, stage: number): boolean =>
    skipCause === 'failure' && index.coverOf(stage) !== null;
  const cut = plan.stages.some((stage, at) => {
    const row = rowAt(state.stages, at);
    return stage.finally !== true && isCut(row) && !isCovered(row, at);
  });
  const finallyCut = index.finallyStages.some((stage) => isCut(rowAt(state.stages, stage)));
  const tolerated = listTolerated(plan, state);
  const ending = tolerated.length === 0 ? {} : { tolerated };
  const output =
    plan.output.kind === 'stage' ? (rowAt(state.stages, index.outputStages[0]!).result?.output ?? null) : null;
  if (cut && gaveUp !== null) return { state: 'failed', failedStage: null, failure: gaveUp, output, ...ending };
  // A cancel that came after the last result changes nothing.
  const isCancelled = firstFailure === null ? cut || finallyCut : cut && cancelRequested;
  const end = isCancelled ? 'cancelled' : firstFailure === null ? 'succeeded' : 'failed';
  return {
    state: end,
    failedStage: firstFailure?.stage ?? null,
    failure: firstFailure?.failure ?? null,
    output,
    ...ending,
  };
}

/**
 * The tolerated failures in the plan's order. A failure whose lost VM also ended other stages is the reason of the
 * run's end, and is not tolerated.
 */
export function listTolerated(plan: MachinePlan, { stages, firstFailure }: RunState): readonly string[] {
  return plan.stages.flatMap(({ id, continueOnError }, index) =>
    continueOnError === true && rowAt(stages, index).phase === 'failed' && firstFailure?.stage !== id ? [id] : [],
  );
}

/** Work of the run was not done. */
function isCut({ phase, skipCause }: StageState): boolean {
  return phase === 'cancelled' || (phase === 'skipped' && skipCause !== 'unneeded');
}

/** The parts of a merged output. Null also if a needed part is missing: half a merge would be taken for a whole one. */
export function mergeOf(plan: MachinePlan, index: PlanIndex, state: RunState): readonly NamedOutput[] | null {
  if (plan.output.kind === 'stage') return null;
  const parts = index.outputStages
    .filter((stage) => !isLeftOut(plan, state, stage))
    .map((stage) => ({ name: plan.stages[stage]!.id, output: rowAt(state.stages, stage).result?.output ?? null }));
  return parts.every((part): part is NamedOutput => part.output !== null) ? parts : null;
}

/** The stage was passed, or its failure is tolerated, so the merge does not need its part. */
function isLeftOut(plan: MachinePlan, state: RunState, stage: number): boolean {
  const { phase } = rowAt(state.stages, stage);
  return phase === 'passed' || (phase === 'failed' && plan.stages[stage]!.continueOnError === true);
}
