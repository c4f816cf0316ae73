import { type DirectVm, directVmOf } from '../domain/run/direct-vm.ts';
import { readRunDir, readIntent, listRunDirs, type RunDirStatus } from '../native/index.ts';
import { vmsDir } from '../store/file/layout.ts';

/** A run directory as its keeper program describes it; see docs/keeper.md. */
export interface ListedVm {
  readonly dir: string;
  readonly state: RunDirStatus['state'];
  /** Null in a directory that was removed just now. */
  readonly vmKey: string | null;
  /** Of a VM that a process uses on its own; null for one of a run. */
  readonly direct: DirectVm | null;
}

/** Every run directory below the state folder. Without VMs no keeper is looked for. */
export async function listVms(stateDir: string, findKeeper: () => Promise<string>): Promise<readonly ListedVm[]> {
  const dirs = await listRunDirs(vmsDir(stateDir));
  if (dirs.length === 0) return [];
  const keeper = await findKeeper();
  const vms: ListedVm[] = [];
  for (const dir of dirs) {
    const { state } = await readRunDir(keeper, dir);
    const intent = await readIntent(dir);
    const vmKey = intent?.['vmKey'];
    vms.push({ dir, state, vmKey: typeof vmKey === 'string' ? vmKey : null, direct: directVmOf(intent) });
  }
  return vms;
}
