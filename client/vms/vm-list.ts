/** The VMs of a state folder, as anybody who owns it sees them: by their run directories, and by what living keepers say. */
import { type DirectVm, directVmOf } from '../../domain/run/direct-vm.ts';
import type { Retention } from '../../domain/run/retained-vm.ts';
import { parseVmKey } from '../../domain/run/vm-key.ts';
import {
  askVmStatus,
  isAlive,
  listRunDirs,
  readIntent,
  readRetention,
  readRunDir,
  type RunDirStatus,
} from '../../native/index.ts';
import { vmsDir } from '../../store/state-folder.ts';

/** A keeper answers at once. One that does not is stopped, and its VM is listed without what it would say. */
const ANSWER_LIMIT_MS = 2_000;

/** A run directory as its keeper program describes it; see docs/reference/keeper.md. */
export interface ListedVm {
  readonly dir: string;
  readonly state: RunDirStatus['state'];
  /** Null in a directory that was removed just now. */
  readonly vmKey: string | null;
  /** Of a VM that a process uses on its own; null for one of a run. */
  readonly direct: DirectVm | null;
  /** What commands take for it. Null where there is no key. */
  readonly id: string | null;
  /** Null for a VM of no run, as the next one. */
  readonly runId: string | null;
  /** Of the plan: the stage, or what several share. */
  readonly scope: string | null;
  /** Of its guest. */
  readonly memoryMib: number | null;
  /** What a living VM does; null for one that has ended, or whose keeper does not answer. */
  readonly activity: VmActivity | null;
  readonly startedAtMs: number | null;
  /** Of a living VM that a failed stage has left for a look; null: it is none. */
  readonly retention: Retention | null;
}

/** `running`: a command is under way in it. `idle`: none is. */
export type VmActivity = 'starting' | 'running' | 'idle' | 'stopping';

/** Every run directory below the state folder. Without VMs no keeper is looked for. */
export async function listVms(stateDir: string, findKeeper: () => Promise<string>): Promise<readonly ListedVm[]> {
  const dirs = await listRunDirs(vmsDir(stateDir));
  if (dirs.length === 0) return [];
  const keeper = await findKeeper();
  const vms: ListedVm[] = [];
  for (const dir of dirs) vms.push(await describeVm(keeper, dir));
  return vms;
}

async function describeVm(keeper: string, dir: string): Promise<ListedVm> {
  const status = await readRunDir(keeper, dir);
  const intent = await readIntent(dir);
  const { vmKey, memoryMib } = intent ?? {};
  const key = typeof vmKey === 'string' ? vmKey : null;
  const identity = key === null ? null : parseVmKey(key);
  const direct = directVmOf(intent);
  return {
    dir,
    state: status.state,
    vmKey: key,
    direct,
    id: direct?.id ?? key,
    runId: identity?.runId ?? null,
    scope: identity?.scope ?? null,
    memoryMib: typeof memoryMib === 'number' ? memoryMib : null,
    ...(isAlive(status)
      ? { ...(await lifeOf(dir)), retention: await readRetention(dir) }
      : { activity: null, startedAtMs: null, retention: null }),
  };
}

async function lifeOf(dir: string): Promise<Pick<ListedVm, 'activity' | 'startedAtMs'>> {
  try {
    const { state, execs, startedAtMs } = await askVmStatus(dir, AbortSignal.timeout(ANSWER_LIMIT_MS));
    if (state !== 'ready') return { activity: state === 'booting' ? 'starting' : 'stopping', startedAtMs };
    return { activity: execs.some((exec) => exec.state === 'running') ? 'running' : 'idle', startedAtMs };
  } catch {
    // It has just ended, or its keeper is stopped. The list is of no use to anybody if one VM keeps it from being shown.
    return { activity: null, startedAtMs: null };
  }
}
