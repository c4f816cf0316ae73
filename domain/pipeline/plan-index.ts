/** Who stands where in a plan, computed once per plan, so that a transition costs what it changes. */
import type { Plan, StagePlan } from '../plan/plan.ts';

export interface PlanIndex {
  /** Stages whose output the run's result is, or is made of. */
  readonly outputStages: readonly number[];
  stageById(id: string): number | undefined;
  scopeById(id: string): number | undefined;
  scopeOf(stage: number): number;
  stagesOf(scope: number): readonly number[];
  /** A scope of one stage is owned by that stage's activity; a shared one is acquired and released. */
  isShared(scope: number): boolean;
  dependenciesOf(stage: number): readonly number[];
  dependentsOf(stage: number): readonly number[];
  /** Stages whose data this one takes: standard input, input, inputs. */
  sourcesOf(stage: number): readonly number[];
  /** Of a timer id `retry/<stage>/<attempt>`. */
  stageOfTimer(id: string): number | null;
}

const cache = new WeakMap<Plan, PlanIndex>();

export function planIndex(plan: Plan): PlanIndex {
  let index = cache.get(plan);
  if (index === undefined) cache.set(plan, (index = build(plan)));
  return index;
}

function build(plan: Plan): PlanIndex {
  const stageIds = new Map(plan.stages.map((stage, index) => [stage.id, index]));
  const scopeIds = new Map(plan.scopes.map((scope, index) => [scope.id, index]));
  const known = (map: Map<string, number>, what: string, id: string): number => {
    const index = map.get(id);
    if (index === undefined) throw new Error(`the plan names ${what} "${id}" and does not have it`);
    return index;
  };
  const stage = (id: string): number => known(stageIds, 'stage', id);
  const scopeOf = plan.stages.map(({ scope }) => known(scopeIds, 'scope', scope));
  const stagesOf = plan.scopes.map((scope) => scope.stages.map(stage));
  const dependencies = plan.stages.map(({ dependsOn }) => dependsOn.map(stage));
  const dependents: number[][] = plan.stages.map(() => []);
  dependencies.forEach((list, index) => list.forEach((dependency) => dependents[dependency]!.push(index)));
  const sources = plan.stages.map((each) => [...new Set(sourceIds(each))].map(stage));
  return {
    outputStages: (plan.output.kind === 'stage' ? [plan.output.stage] : plan.output.stages).map(stage),
    stageById: (id) => stageIds.get(id),
    scopeById: (id) => scopeIds.get(id),
    scopeOf: (index) => scopeOf[index]!,
    stagesOf: (scope) => stagesOf[scope]!,
    isShared: (scope) => stagesOf[scope]!.length > 1,
    dependenciesOf: (index) => dependencies[index]!,
    dependentsOf: (index) => dependents[index]!,
    sourcesOf: (index) => sources[index]!,
    stageOfTimer: (id) => stageIds.get(id.split('/')[1] ?? '') ?? null,
  };
}

/** Ids of the stages whose data a stage takes; with repetitions. */
export function sourceIds(stage: StagePlan): string[] {
  const ids = stage.inputs.map((input) => input.fromStage);
  if (stage.stdin.kind === 'stage-output') ids.push(stage.stdin.stage);
  if (stage.input.kind === 'carry') ids.push(stage.input.stage);
  if (stage.input.kind === 'merge') ids.push(...stage.input.stages);
  return ids;
}

/** What a stage takes of one that it takes data of. */
export function takenOf(stage: StagePlan, source: string): { readonly output: boolean; readonly outputs: readonly string[] } {
  const { stdin, input, inputs } = stage;
  const output =
    (stdin.kind === 'stage-output' && stdin.stage === source) ||
    (input.kind === 'carry' && input.stage === source) ||
    (input.kind === 'merge' && input.stages.includes(source));
  return { output, outputs: inputs.filter(({ fromStage }) => fromStage === source).map((each) => each.output) };
}
