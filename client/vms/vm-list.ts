/**
 * Lists the VMs of a state folder for any process of its owner, from their run directories and the answers of living
 * keepers.
 */
import { type DirectVm, directVmOf } from '../../domain/run/direct-vm.ts';
import type { Retention } from '../../domain/run/retained-vm.ts';
import type { VmLimits } from '../../domain/run/event.ts';
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
  /** The process that uses the VM directly; null for a VM of a run. */
  readonly direct: DirectVm | null;
  /** The name that commands accept for the VM; null if it has no key. */
  readonly id: string | null;
  /** The run of the VM; null if it belongs to no run. */
  readonly runId: string | null;
  /** The scope of the plan: a stage, or the name that several stages share. */
  readonly scope: string | null;
  /** The VMM and its accelerator, such as `qemu tcg`. */
  readonly vmm: string | null;
  /** The memory of the guest. */
  readonly memoryMib: number | null;
  /** The limits of a living VM by control groups; null if its keeper does not say them. */
  readonly limits: VmLimits | null;
  /** The activity of a living VM; null if the VM has ended, or its keeper does not answer. */
  readonly activity: VmActivity | null;
  readonly startedAtMs: number | null;
  /** The retention of a living VM that a failed stage has left for inspection; null for other VMs. */
  readonly retention: Retention | null;
}

/** `running`: a command is running in the VM. `idle`: no command is running. */
export type VmActivity = 'starting' | 'running' | 'idle' | 'stopping';

/** Lists every run directory below the state folder. It looks for keepers only if there are VMs. */
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
    vmm: describeVmm(intent?.['vmm']),
    memoryMib: typeof memoryMib === 'number' ? memoryMib : null,
    ...(isAlive(status)
      ? { ...(await lifeOf(dir)), retention: await readRetention(dir) }
      : { limits: null, activity: null, startedAtMs: null, retention: null }),
  };
}

/** Only QEMU can have another accelerator than KVM, so only its settings name one. */
function describeVmm(settings: unknown): string | null {
  const { name, accelerator } = (settings ?? {}) as { readonly name?: unknown; readonly accelerator?: unknown };
  if (typeof name !== 'string') return null;
  return `${name} ${typeof accelerator === 'string' ? accelerator : 'kvm'}`;
}

async function lifeOf(dir: string): Promise<Pick<ListedVm, 'limits' | 'activity' | 'startedAtMs'>> {
  try {
    const { state, execs, limits, startedAtMs } = await askVmStatus(dir, AbortSignal.timeout(ANSWER_LIMIT_MS));
    if (state !== 'ready') return { limits, activity: state === 'booting' ? 'starting' : 'stopping', startedAtMs };
    return { limits, activity: execs.some((exec) => exec.state === 'running') ? 'running' : 'idle', startedAtMs };
  } catch {
    // The VM has just ended, or its keeper is stopped. One silent VM must not keep the whole list from being shown.
    return { limits: null, activity: null, startedAtMs: null };
  }
}
