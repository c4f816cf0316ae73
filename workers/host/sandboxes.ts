/** The sandboxes of a host for a worker. A plan selects the backend; listing and releasing need only the key. */
import type { SandboxBackend, VmKey } from '../../activities/ports/sandbox.ts';
import type { SandboxPlan } from '../../domain/plan/plan.ts';
import { keepVmAlive, readHostFacts, vmRunDir, type SnapshotFolder } from '../../native/index.ts';
import type { FindRootDisk, FindVmExtra } from '../../sandbox/micro-vm/backend.ts';
import { createSandboxBackends, largestOverheadMib, selectBackend } from '../../sandbox/select.ts';
import { sweepVms, type SweptHostVm } from '../../sandbox/sweep.ts';
import { readHostMemory, vmBudgetMib } from '../../setup/machine/host-memory.ts';
import type { HostPieces } from '../../setup/pieces/host-pieces.ts';
import { vmsDir } from '../../store/state-folder.ts';

export interface HostSandboxes {
  /** The memory of the host that each VM needs in addition to its guest's memory. */
  readonly vmOverheadMib: () => Promise<number>;
  readonly backendFor: (plan: Pick<SandboxPlan, 'mode' | 'isolation'>) => SandboxBackend;
  /** Ends a VM whatever made it. */
  readonly release: (key: VmKey) => Promise<void>;
  /** Removes what dead VMs left and lists the others. A call during a sweep gets the result of that sweep. */
  readonly sweep: () => Promise<readonly SweptHostVm[]>;
  /** Renews the lease of a living VM. */
  readonly keepAlive: (key: VmKey) => Promise<void>;
}

export interface HostSandboxOptions {
  readonly keeper: string;
  /** Asked for when the first VM is wanted. @throws CodedError `host/not-ready` */
  readonly pieces: () => Promise<HostPieces>;
  /** Pieces that only some VMs need. @throws CodedError `host/not-ready` */
  readonly extra: FindVmExtra;
  /** Disks of images that users named. @throws CodedError `host/not-ready` */
  readonly disk: FindRootDisk;
  readonly stateDir: string;
  /** Null is the backend's own limit. */
  readonly bootTimeoutMs: number | null;
  /** Null is the keeper's own limit. */
  readonly diskFullLimitMs: number | null;
  /** The time that a VM lives after its last lease renewal; null: the keeper's own limit. */
  readonly orphanTimeoutMs: number | null;
  /** Null: each VM boots. */
  readonly snapshots: SnapshotFolder | null;
  /** Whether `voidbox exec` may enter VMs of stages that run. */
  readonly allowsExec: boolean;
}

/** The limit for a keeper's answer, which is immediate unless the keeper or its host is stopped. */
const KEEP_ALIVE_LIMIT_MS = 10_000;

export function createHostSandboxes({
  keeper,
  pieces,
  extra,
  disk,
  stateDir,
  bootTimeoutMs,
  diskFullLimitMs,
  orphanTimeoutMs,
  snapshots,
  allowsExec,
}: HostSandboxOptions): HostSandboxes {
  const vms = vmsDir(stateDir);
  const backends = createSandboxBackends({
    vmsDir: vms,
    hostMemoryMib: () => readHostMemory().totalMib,
    // Leases are this worker's order of asking. Every process of the folder that launches VMs is counted at the launch.
    budgetMib: () => vmBudgetMib(readHostMemory().totalMib),
    keeper,
    pieces,
    extra,
    disk,
    allowsExec,
    ...(bootTimeoutMs === null ? {} : { bootTimeoutMs }),
    ...(diskFullLimitMs === null ? {} : { diskFullLimitMs }),
    ...(orphanTimeoutMs === null ? {} : { orphanTimeoutMs }),
    ...(snapshots === null ? {} : { snapshots }),
  });
  let sweeping: Promise<readonly SweptHostVm[]> | null = null;
  return {
    vmOverheadMib: async () => largestOverheadMib(await readHostFacts(keeper)),
    backendFor: (plan) => selectBackend(backends, plan),
    release: (key) => backends.qemu.release(key),
    sweep: () => (sweeping ??= sweepVms(keeper, vms).finally(() => (sweeping = null))),
    async keepAlive(key) {
      await keepVmAlive(vmRunDir(vms, key), AbortSignal.timeout(KEEP_ALIVE_LIMIT_MS));
    },
  };
}
