/** What a box finds where the one before it has ended without an output. */
import type { InputPlan, StagePlan } from './plan.ts';

/**
 * The input of the first box of those that it carries on from: none of them has an output, so each found what that one had found.
 * @param stageOf  of a plan without cycles
 */
export function inputBehind(input: InputPlan, stageOf: (id: string) => Pick<StagePlan, 'input'>): InputPlan {
  let at = input;
  while (at.kind === 'carry') at = stageOf(at.stage).input;
  return at;
}
