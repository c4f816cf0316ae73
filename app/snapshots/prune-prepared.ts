/** Removes what killed writers have left of prepared sandboxes. It deletes none that a user keeps. */
import type { Environment } from '../../setup/environment.ts';
import {
  listPreparedRemains,
  listPreparedSandboxes,
  type PreparedList,
  type PreparedRemains,
  removePreparedRemains,
} from '../../store/prepared-sandboxes.ts';

export interface PrunedSandboxes {
  readonly kept: PreparedList;
  readonly removed: readonly PreparedRemains[];
}

/** @throws CodedError `store/io` */
export async function prunePrepared(
  { stateDir }: Pick<Environment, 'stateDir'>,
  { dryRun, nowMs }: { readonly dryRun: boolean; readonly nowMs: number },
): Promise<PrunedSandboxes> {
  const removed = dryRun ? listPreparedRemains(stateDir, nowMs) : await removePreparedRemains(stateDir, nowMs);
  return { kept: listPreparedSandboxes(stateDir), removed };
}
