/** Results of a successful stage in addition to its output. */
import { saveWorkspace, type LeftWorkspace } from '../../workspace/stage-workspace.ts';
import { copyMountsBack } from '../../vm/mounts.ts';
import type { OutcomeFailure } from '../outputs.ts';
import type { AttemptVm } from '../stage-attempt.ts';

/** Saves the workspace and writes mounts back; a failure is the stage's. */
export async function leaveWork(vm: AttemptVm): Promise<LeftWorkspace> {
  const { deps, sandbox, request, inputs, life } = vm;
  const left = await saveWorkspace(deps, sandbox, request, inputs.workspace, life);
  if (left.failure !== null) return left;
  const refused = await writeMountsBack(vm);
  return refused === null ? left : { failure: refused, outputs: {} };
}

/** Returns null if all changes were copied to the host. */
export function writeMountsBack({ deps, sandbox, request, vmKey, life }: AttemptVm): Promise<OutcomeFailure | null> {
  return copyMountsBack(deps, sandbox, request, vmKey, life.detached);
}
