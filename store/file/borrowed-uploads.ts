/**
 * Finds runs whose uploads other runs mount: a retry mounts the uploads of the run that it repeats, and can itself be
 * retried after its end.
 */
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { findRunUploads, runsDir } from '../state-folder.ts';
import { listRunFolders } from './run-folder.ts';
import { readRecord } from './run-records.ts';

/**
 * Leaves out runs whose uploads a run needs that stays, also one that is not admitted yet.
 * @param runIds  the runs that a prune would remove
 */
export async function leaveOutBorrowed(stateDir: string, runIds: readonly string[]): Promise<readonly string[]> {
  if (runIds.length === 0) return runIds;
  const folders = new Map<string, readonly string[]>();
  for (const { runId } of await listRunFolders(runsDir(stateDir)))
    if (runId !== null) folders.set(runId, readMountedFolders(stateDir, runId));
  let removed = runIds;
  for (;;) {
    const going = new Set(removed);
    const used = [...folders].flatMap(([runId, paths]) => (going.has(runId) ? [] : paths));
    const left = removed.filter((runId) => {
      const own = `${findRunUploads(stateDir, runId)}/`;
      return !used.some((path) => path.startsWith(own));
    });
    if (left.length === removed.length) return left;
    // A run that stays now may need the uploads of another one.
    removed = left;
  }
}

/** Returns the folders that the mark of a run lets it mount. */
function readMountedFolders(stateDir: string, runId: string): readonly string[] {
  try {
    const mark = readRecord(stateDir, runId, 'client') as { baseDir?: unknown; allow?: unknown } | null;
    const allow: readonly unknown[] = Array.isArray(mark?.allow) ? mark.allow : [];
    return [mark?.baseDir, ...allow].filter((path) => typeof path === 'string');
  } catch (error) {
    // A run with a damaged mark mounts nothing.
    if (isCodedError(error) && error.code === 'store/damaged') return [];
    throw error;
  }
}
