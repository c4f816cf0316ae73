/** What follows from a stage's condition for those around it. */
import type { ConditionPlan, InputPlan, Plan, StagePlan } from './plan.ts';

/**
 * Whether a stage that is passed gives its input as its output: in a pipeline what a box hands on to the next goes through one
 * that is passed. A merge has no part of such a box, and nobody else may take its output.
 */
export function createInputPredicate({
  kind,
  stages,
  output,
}: Pick<Plan, 'kind' | 'stages' | 'output'>): (id: string) => boolean {
  const carried = new Set(stages.flatMap(({ input }) => (input.kind === 'carry' ? [input.stage] : [])));
  if (kind === 'pipeline' && output.kind === 'stage') carried.add(output.stage);
  return (id) => carried.has(id);
}

/** The stages whose data the stage is decided with: what its condition reads, and what it may hand on. */
export function readToDecide(
  { input }: Pick<StagePlan, 'input'>,
  { stages }: ConditionPlan,
  handsOn: boolean,
): readonly string[] {
  return [...new Set([...stages, ...(handsOn ? sourcesOf(input) : [])])];
}

function sourcesOf(input: InputPlan): readonly string[] {
  switch (input.kind) {
    case 'none':
    case 'run-input':
      return [];
    case 'carry':
      return [input.stage];
    case 'merge':
      return input.stages;
  }
}
