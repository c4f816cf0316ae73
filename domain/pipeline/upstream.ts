/** What a stage takes of those before it when it starts, and what its condition is decided with. */
import type { DataRef } from '../plan/plan.ts';
import type { EndedStage } from './command.ts';
import type { MachineStage } from './machine-plan.ts';
import type { PlanIndex } from './plan-index.ts';
import { isEnd, NO_OUTPUTS, type StageOutputs, type StageState } from './state.ts';
import { createMapping } from '../units/mapping.ts';

/** The stages of a run as they stand in a transition. */
export interface StageReader {
  readonly plan: { readonly stages: readonly MachineStage[] };
  readonly index: Pick<PlanIndex, 'isFinally' | 'takenBy'>;
  stage(stage: number): StageState;
  stageIndex(id: string): number;
}

export function upstreamOf(run: StageReader, stage: number): Readonly<Record<string, StageOutputs>> {
  const { id, again, carries } = run.plan.stages[stage]!;
  const upstream: Record<string, StageOutputs> = createMapping();
  for (const { stage: source, index } of run.index.takenBy(stage)) {
    const mayLack = run.index.isFinally(stage) || again?.includes(source) === true;
    const result = run.stage(index).result ?? (mayLack ? NO_OUTPUTS : null);
    if (result === null) throw new Error(`stage "${id}" starts before "${source}" has a result`);
    upstream[source] = result;
    if (carries !== source) continue;
    const { output, parts } = resolveCarried(run, index);
    upstream[source] = { ...result, output };
    for (const part of endedOf(run, parts)) upstream[part] ??= { ...NO_OUTPUTS, output: outputOf(run, part) };
  }
  return upstream;
}

/** @param reads  ids of the stages that the condition is decided with */
export function collectEnds(
  run: StageReader,
  stage: number,
  reads: readonly string[],
): Readonly<Record<string, EndedStage>> {
  const { id: decided, carries } = run.plan.stages[stage]!;
  const ends: Record<string, EndedStage> = createMapping();
  const addOutput = (id: string, output: DataRef | null): void => {
    const { phase, attempt } = run.stage(run.stageIndex(id));
    if (!isEnd(phase)) throw new Error(`stage "${decided}" is decided before "${id}" has ended`);
    ends[id] = { state: phase, attempt, output };
  };
  for (const id of reads) {
    const carried = id === carries ? resolveCarried(run, run.stageIndex(id)) : null;
    addOutput(id, carried === null ? outputOf(run, id) : carried.output);
    for (const part of endedOf(run, carried?.parts ?? []))
      if (!reads.includes(part)) addOutput(part, outputOf(run, part));
  }
  return ends;
}

/** In a shared VM that was lost, a part may have to be made again, of which nobody waits any more. */
function endedOf(run: StageReader, ids: readonly string[]): readonly string[] {
  return ids.filter((id) => isEnd(run.stage(run.stageIndex(id)).phase));
}

function outputOf(run: StageReader, id: string): DataRef | null {
  return run.stage(run.stageIndex(id)).result?.output ?? null;
}

/** The output of a stage; of one that ended without, what it had found itself: perhaps a merge, of these parts. */
function resolveCarried(
  run: StageReader,
  source: number,
): { readonly output: DataRef | null; readonly parts: readonly string[] } {
  for (let at = source; ;) {
    const { phase, result } = run.stage(at);
    const { carries, merges = [] } = run.plan.stages[at]!;
    const output = result?.output ?? null;
    // A stage that was passed has what it hands on.
    if (phase !== 'failed') return { output, parts: [] };
    if (carries === undefined) return { output, parts: merges };
    at = run.stageIndex(carries);
  }
}
