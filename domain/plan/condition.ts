/** Derives what a stage's condition means for the stages around it. */
import type { ConditionPlan, InputPlan, Plan, StagePlan } from './plan.ts';

/**
 * Returns a predicate: whether a stage that is passed over has its input as its output. In a pipeline, a box that is
 * passed over hands the previous box's output on to the next. A merge leaves such a box out, and no other stage may
 * take its output.
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

/**
 * Returns the stages whose data is needed to decide a stage: those that its condition reads, and those that it may hand
 * on.
 */
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
