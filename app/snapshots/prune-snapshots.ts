/** Deletes snapshots from which no VM can start. */
import type { Environment } from '../../setup/environment.ts';
import { deleteSnapshot, deleteSnapshotRemains, type Snapshot } from '../../setup/snapshots/snapshot-store.ts';
import { AppError } from '../app-error.ts';
import { openSnapshotFolder } from './find-snapshots.ts';

export interface PrunedSnapshots {
  /** Damaged ones, those of earlier boots of the host, and those of replaced files. */
  readonly removed: readonly Snapshot[];
  /** Why the folder was left as it is; null: it was pruned. */
  readonly problem: string | null;
  readonly remedy: string | null;
}

export async function pruneSnapshots(
  env: Pick<Environment, 'cacheDir'>,
  { dryRun, nowMs }: { readonly dryRun: boolean; readonly nowMs: number },
): Promise<PrunedSnapshots> {
  try {
    const { dir, snapshots, isMissing } = await openSnapshotFolder(env);
    const removed: Snapshot[] = [];
    for (const snapshot of snapshots.filter(({ state }) => state !== 'usable'))
      if (dryRun || (await deleteSnapshot(dir, snapshot.key))) removed.push(snapshot);
    if (!dryRun && !isMissing) await deleteSnapshotRemains(dir, nowMs);
    return { removed, problem: null, remedy: null };
  } catch (error) {
    // A read-only cache is no reason to keep runs.
    const { message } = error as Error;
    return { removed: [], problem: message, remedy: error instanceof AppError ? error.remedy : null };
  }
}
