/** Parts that are done for each item: whose stages they are, and what is left of a plan without them. */
import type { Plan, StagePlan } from './plan.ts';

/** The stages with items that a stage stands in, the outermost first; empty for the run's own. Of a plan that was checked. */
export function ownersOf(
  { of }: Pick<StagePlan, 'of'>,
  stageOf: (id: string) => Pick<StagePlan, 'of'>,
): readonly string[] {
  const owners: string[] = [];
  for (let owner = of; owner !== undefined; owner = stageOf(owner).of) owners.unshift(owner);
  return owners;
}

/** The run's own stages, as its machine and its readers know them: a stage with items stands for all that belongs to these. */
export function ownStages({ stages }: Pick<Plan, 'stages'>): readonly StagePlan[] {
  const inItems = new Set(stages.flatMap(({ id, of }) => (of === undefined ? [] : [id])));
  if (inItems.size === 0) return stages;
  return stages
    .filter(({ of }) => of === undefined)
    .map((stage) => ({ ...stage, after: stage.after.filter((edge) => !inItems.has(edge.stage)) }));
}

/** By stage the run's own stage that it belongs to. */
export function ownStageOf({ stages }: Pick<Plan, 'stages'>): (id: string) => string {
  const byId = new Map(stages.map((stage) => [stage.id, stage]));
  return (id) => ownersOf(byId.get(id) ?? {}, (owner) => byId.get(owner)!)[0] ?? id;
}

const byIds = new WeakMap<object, ReadonlyMap<string, StagePlan>>();

/** Of any stage, also of those of items. */
export function stageOfPlan(plan: Pick<Plan, 'stages'>, id: string): StagePlan | undefined {
  let byId = byIds.get(plan);
  if (byId === undefined) byIds.set(plan, (byId = new Map(plan.stages.map((stage) => [stage.id, stage]))));
  return byId.get(id);
}
