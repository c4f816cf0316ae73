/**
 * Indexes of the stages and scopes of a plan, computed once per plan, so that the cost of a transition depends only on
 * its changes.
 */
import type { EdgeCondition } from '../plan/plan.ts';
import { isSavedEachStep, isSharedScope } from '../plan/scope.ts';
import type { MachinePlan, TakenData } from './machine-plan.ts';

/** An edge from one of its ends: the stage at the other, by index. */
export interface Edge {
  readonly stage: number;
  readonly on: EdgeCondition;
}

export interface PlanIndex {
  /** Stages whose output is the run's result, or a part of it. */
  readonly outputStages: readonly number[];
  /** Stages with `finally`. */
  readonly finallyStages: readonly number[];
  isFinally(stage: number): boolean;
  /**
   * The stage that ends the innermost part with this stage whose failure is tolerated as a whole; null: it is in no
   * such part.
   */
  coverOf(stage: number): number | null;
  /** The stages of the part that such a stage ends. */
  coveredBy(end: number): readonly number[];
  stageById(id: string): number | undefined;
  scopeById(id: string): number | undefined;
  /** Null: the stage has no scope. */
  scopeOf(stage: number): number | null;
  stagesOf(scope: number): readonly number[];
  /** The activity of its only stage owns a scope that is not shared; a shared one is acquired and released. */
  isShared(scope: number): boolean;
  /** After each step the disk of its VM is saved, and a lost VM repeats only later steps. */
  isSavedEachStep(scope: number): boolean;
  edgesBefore(stage: number): readonly Edge[];
  edgesAfter(stage: number): readonly Edge[];
  /** The data that this stage takes from others. */
  takenBy(stage: number): readonly (TakenData & { readonly index: number })[];
  /** The stage of a timer id `retry/<stage>/<attempt>`. */
  stageOfTimer(id: string): number | null;
}

const cache = new WeakMap<MachinePlan, PlanIndex>();

/** @throws Error if parts of the plan do not fit each other, which `checkPlan` rejects */
export function planIndex(plan: MachinePlan): PlanIndex {
  let index = cache.get(plan);
  if (index === undefined) cache.set(plan, (index = build(plan)));
  return index;
}

function build(plan: MachinePlan): PlanIndex {
  const stageIds = new Map(plan.stages.map((stage, index) => [stage.id, index]));
  const scopeIds = new Map(plan.scopes.map((scope, index) => [scope.id, index]));
  const requireIndex = (map: Map<string, number>, what: string, id: string): number => {
    const index = map.get(id);
    if (index === undefined) throw new Error(`the plan names ${what} "${id}" and does not have it`);
    return index;
  };
  const stage = (id: string): number => requireIndex(stageIds, 'stage', id);
  const scopeOf = plan.stages.map(({ scope }) => (scope === null ? null : requireIndex(scopeIds, 'scope', scope)));
  const stagesOf = plan.scopes.map((scope) => scope.stages.map(stage));
  const before = plan.stages.map(({ after }) => after.map((edge): Edge => ({ stage: stage(edge.stage), on: edge.on })));
  const after: Edge[][] = plan.stages.map(() => []);
  before.forEach((edges, index) => edges.forEach((edge) => after[edge.stage]!.push({ stage: index, on: edge.on })));
  const covered = plan.stages.map(({ covers = [] }) => covers.map(stage));
  const coverOf = new Map<number, number>();
  // The end of an inner part comes before the end of the part around it.
  covered.forEach((stages, end) => stages.forEach((each) => coverOf.has(each) || coverOf.set(each, end)));
  const taken = plan.stages.map(({ takes }) => takes.map((each) => ({ ...each, index: stage(each.stage) })));
  return {
    outputStages: (plan.output.kind === 'stage' ? [plan.output.stage] : plan.output.stages).map(stage),
    finallyStages: plan.stages.flatMap((each, index) => (each.finally === true ? [index] : [])),
    isFinally: (index) => plan.stages[index]!.finally === true,
    coverOf: (index) => coverOf.get(index) ?? null,
    coveredBy: (end) => covered[end]!,
    stageById: (id) => stageIds.get(id),
    scopeById: (id) => scopeIds.get(id),
    scopeOf: (index) => scopeOf[index]!,
    stagesOf: (scope) => stagesOf[scope]!,
    isShared: (scope) => isSharedScope(plan.scopes[scope]!),
    isSavedEachStep: (scope) => isSavedEachStep(plan.scopes[scope]!),
    edgesBefore: (index) => before[index]!,
    edgesAfter: (index) => after[index]!,
    takenBy: (index) => taken[index]!,
    stageOfTimer: (id) => stageIds.get(id.split('/')[1] ?? '') ?? null,
  };
}
