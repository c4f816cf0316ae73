/** Finds the input of a box if the previous box ended without an output. */
import type { InputPlan, StagePlan } from './plan.ts';

/**
 * Returns the input of the first box in the chain of boxes that this box carries on from. No box in the chain has an
 * output, so each box got the input of the one before it.
 * @param stageOf  of a plan without cycles
 */
export function inputBehind(input: InputPlan, stageOf: (id: string) => Pick<StagePlan, 'input'>): InputPlan {
  let at = input;
  while (at.kind === 'carry') at = stageOf(at.stage).input;
  return at;
}
