/** Facts of a stage that are known before it is compiled. */
import type { StageSpec } from './spec.ts';

/** Whether an agent runs in the stage's VM. */
export function hasAgent({ prompt, skill }: StageSpec): boolean {
  return prompt !== null || skill !== null;
}
