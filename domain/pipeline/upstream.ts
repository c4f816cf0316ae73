/** The data that a stage takes from earlier stages when it starts, and the data that its condition reads. */
import type { DataRef } from '../plan/plan.ts';
import type { EndedStage } from './command.ts';
import type { MachineStage } from './machine-plan.ts';
import type { PlanIndex } from './plan-index.ts';
import { isEnd, NO_OUTPUTS, type StageOutputs, type StageState } from './state.ts';
import { createMapping } from '../units/mapping.ts';

/** The stages of a run during a transition. */
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

/** @param reads  ids of the stages whose ends the condition reads */
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

/**
 * Leaves out a part of a merge that runs again after its shared VM was lost, because the stage does not wait for it.
 */
function endedOf(run: StageReader, ids: readonly string[]): readonly string[] {
  return ids.filter((id) => isEnd(run.stage(run.stageIndex(id)).phase));
}

function outputOf(run: StageReader, id: string): DataRef | null {
  return run.stage(run.stageIndex(id)).result?.output ?? null;
}

/** The output of a stage. If it failed without one, it hands on its own input: perhaps a merge, of these parts. */
function resolveCarried(
  run: StageReader,
  source: number,
): { readonly output: DataRef | null; readonly parts: readonly string[] } {
  for (let at = source; ;) {
    const { phase, result } = run.stage(at);
    const { carries, merges = [] } = run.plan.stages[at]!;
    const output = result?.output ?? null;
    // The result of a passed stage is the output that it hands on.
    if (phase !== 'failed') return { output, parts: [] };
    if (carries === undefined) return { output, parts: merges };
    at = run.stageIndex(carries);
  }
}
