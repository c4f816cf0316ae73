/** What a stage of a spec says of itself before it is compiled. */
import type { StageSpec } from './spec.ts';

/** Whether an agent works in the stage's VM. */
export function hasAgent({ prompt, skill }: StageSpec): boolean {
  return prompt !== null || skill !== null;
}
