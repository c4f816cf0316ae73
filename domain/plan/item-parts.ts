/** Finds the owners of stages in parts that run for each item, and reduces a plan to the run's own stages. */
import type { Plan, StagePlan } from './plan.ts';

/**
 * Returns the stages with items that contain a stage, the outermost first; empty for the run's own stages. The plan
 * must have passed the check.
 */
export function ownersOf(
  { of }: Pick<StagePlan, 'of'>,
  stageOf: (id: string) => Pick<StagePlan, 'of'>,
): readonly string[] {
  const owners: string[] = [];
  for (let owner = of; owner !== undefined; owner = stageOf(owner).of) owners.unshift(owner);
  return owners;
}

/**
 * Returns the run's own stages, as its machine and its readers know them: a stage with items represents all stages of
 * its items.
 */
export function ownStages({ stages }: Pick<Plan, 'stages'>): readonly StagePlan[] {
  const inItems = new Set(stages.flatMap(({ id, of }) => (of === undefined ? [] : [id])));
  if (inItems.size === 0) return stages;
  return stages
    .filter(({ of }) => of === undefined)
    .map((stage) => ({ ...stage, after: stage.after.filter((edge) => !inItems.has(edge.stage)) }));
}

/** Returns a function that maps a stage to the run's own stage that contains it. */
export function ownStageOf({ stages }: Pick<Plan, 'stages'>): (id: string) => string {
  const byId = new Map(stages.map((stage) => [stage.id, stage]));
  return (id) => ownersOf(byId.get(id) ?? {}, (owner) => byId.get(owner)!)[0] ?? id;
}

const byIds = new WeakMap<object, ReadonlyMap<string, StagePlan>>();

/** Returns any stage of a plan, also a stage of items. */
export function stageOfPlan(plan: Pick<Plan, 'stages'>, id: string): StagePlan | undefined {
  let byId = byIds.get(plan);
  if (byId === undefined) byIds.set(plan, (byId = new Map(plan.stages.map((stage) => [stage.id, stage]))));
  return byId.get(id);
}
