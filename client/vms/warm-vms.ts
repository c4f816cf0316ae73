/** Counts the VMs that wait for stages of a state folder, by their shapes. */
import { askVmStatus, listPoolDirs, readIntent } from '../../native/index.ts';
import { vmsDir } from '../../store/state-folder.ts';

const ASK_LIMIT_MS = 2_000;

export interface WaitingVms {
  /** As operators write it; `unknown` if its launch did not name it. */
  readonly shape: string;
  readonly count: number;
}

/** VMs that begin to wait, and folders of dead workers, are not counted. */
export async function countWaitingVms(stateDir: string): Promise<readonly WaitingVms[]> {
  const counts = new Map<string, number>();
  const shapes = (await listPoolDirs(vmsDir(stateDir)).catch(() => [])).map(readShape);
  for (const shape of await Promise.all(shapes)) if (shape !== null) counts.set(shape, (counts.get(shape) ?? 0) + 1);
  return [...counts].toSorted().map(([shape, count]) => ({ shape, count }));
}

/** Returns null for a folder without a VM that waits. */
async function readShape(dir: string): Promise<string | null> {
  try {
    const { state } = await askVmStatus(dir, AbortSignal.timeout(ASK_LIMIT_MS));
    if (state !== 'waiting') return null;
  } catch {
    return null;
  }
  const note = (await readIntent(dir))?.['note'] as { readonly shape?: unknown } | undefined;
  return typeof note?.shape === 'string' ? note.shape : 'unknown';
}
