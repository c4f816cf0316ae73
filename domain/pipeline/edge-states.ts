/** The edges of a run and the parts of its plan, during a transition. */
import { type EdgeState, edgeState } from './edges.ts';
import type { Edge, PlanIndex } from './plan-index.ts';
import type { MachinePlan } from './machine-plan.ts';
import { isEnd, type SkipCause, type StageState } from './state.ts';

export interface EdgeReader {
  readonly plan: MachinePlan;
  readonly index: PlanIndex;
  stage(stage: number): StageState;
  isTolerated(stage: number): boolean;
}

export function readEdge(run: EdgeReader, on: Edge['on'], earlier: number): EdgeState {
  return edgeState(on, run.stage(earlier).phase, run.isTolerated(earlier));
}

/** Whether a failure of any one of several stages lets the stage start. */
export function isOneOfSeveral({ plan }: EdgeReader, stage: number, on: Edge['on']): boolean {
  return on === 'failure' && plan.stages[stage]!.anyFailure === true;
}

/** A dead edge on a failure is not missed while another one holds, or may still hold. */
export function mayStillHold(run: EdgeReader, stage: number, on: Edge['on']): boolean {
  return isOneOfSeveral(run, stage, on) && countFailures(run, 'dead', stage) < listFailureEdges(run, stage).length;
}

/** The number of edges on a failure before the stage that are in this state. */
export function countFailures(run: EdgeReader, state: EdgeState, stage: number): number {
  return listFailureEdges(run, stage).filter((edge) => readEdge(run, edge.on, edge.stage) === state).length;
}

function listFailureEdges({ index }: EdgeReader, stage: number): readonly Edge[] {
  return index.edgesBefore(stage).filter(({ on }) => on === 'failure');
}

/** An edge before the stage that can no longer hold, and without which the stage cannot start. */
export function findDeadEdge(run: EdgeReader, stage: number): Edge | undefined {
  return run.index
    .edgesBefore(stage)
    .find((edge) => readEdge(run, edge.on, edge.stage) === 'dead' && !mayStillHold(run, stage, edge.on));
}

export function findSkipCause(run: EdgeReader, earlier: number, on: Edge['on']): SkipCause {
  const { phase, skipCause } = run.stage(earlier);
  if (phase === 'skipped') return skipCause ?? 'failure';
  return phase === 'cancelled' ? 'cancel' : on === 'failure' ? 'unneeded' : 'failure';
}

/**
 * Reads the part that a stage ends whose failure is tolerated as a whole.
 * @returns `open`: stages of it have not ended; `whole`: none failed; else those that did
 */
export function readPart(run: EdgeReader, end: number): 'open' | 'whole' | readonly number[] {
  const stages = run.index.coveredBy(end);
  if (stages.some((stage) => !isEnd(run.stage(stage).phase))) return 'open';
  // Failed stages of a tolerated part within count only for that part.
  const own = stages.filter((stage) => run.index.coverOf(stage) === end);
  const failed = own.filter((stage) => run.stage(stage).phase === 'failed');
  const counted = failed.filter((stage) => !run.isTolerated(stage));
  if (counted.length > 0) return counted;
  // A tolerated stage within the part failed, and its shared VM ended other stages.
  return failed.length > 0 && own.some((stage) => run.stage(stage).skipCause === 'failure') ? failed : 'whole';
}
