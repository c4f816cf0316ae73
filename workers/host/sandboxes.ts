/** The sandboxes of a host for a worker. A plan selects the backend; listing and releasing need only the key. */
import type { SandboxBackend, VmKey } from '../../activities/ports/sandbox.ts';
import type { WarmCount } from '../../domain/plan/warm-shape.ts';
import type { SandboxPlan } from '../../domain/plan/plan.ts';
import { keepVmAlive, readHostFacts, vmRunDir, type CpuTemplate, type SnapshotFolder } from '../../native/index.ts';
import type { FindRootDisk, FindVmExtra } from '../../sandbox/micro-vm/backend.ts';
import { createLauncher } from '../../sandbox/micro-vm/launch.ts';
import { type QemuBackendOptions, withQemu } from '../../sandbox/micro-vm/qemu/backend.ts';
import { identifyFiles } from '../../sandbox/file-identity.ts';
import { createWarmVms, type WarmVms } from '../../sandbox/warm-vms.ts';
import { createSandboxBackends, largestOverheadMib, selectBackend } from '../../sandbox/select.ts';
import { sweepVms, type SweptHostVm } from '../../sandbox/sweep.ts';
import { readHostMemory, vmBudgetMib } from '../../setup/machine/host-memory.ts';
import type { HostPieces } from '../../setup/pieces/host-pieces.ts';
import { readDiskRoom } from '../../store/disk-room.ts';
import type { Log } from '../log.ts';
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
  /** The VMs that wait for a launch; null: no VM waits. */
  readonly warm: WarmVms | null;
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
  readonly cpuTemplate: CpuTemplate;
  /** Whether `voidbox exec` may enter VMs of stages that run. */
  readonly allowsExec: boolean;
  /** The VMs that wait for launches of this host. */
  readonly warm: readonly WarmCount[];
  readonly log: Log;
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
  cpuTemplate,
  allowsExec,
  warm: counts,
  log,
}: HostSandboxOptions): HostSandboxes {
  const vms = vmsDir(stateDir);
  const options: QemuBackendOptions = {
    vmsDir: vms,
    hostMemoryMib: () => readHostMemory().totalMib,
    // Leases are this worker's order of asking. Every process of the folder that launches VMs is counted at the launch.
    budgetMib: () => vmBudgetMib(readHostMemory().totalMib),
    keeper,
    pieces,
    extra,
    disk,
    cpuTemplate,
    allowsExec,
    ...(bootTimeoutMs === null ? {} : { bootTimeoutMs }),
    ...(diskFullLimitMs === null ? {} : { diskFullLimitMs }),
    ...(orphanTimeoutMs === null ? {} : { orphanTimeoutMs }),
    ...(snapshots === null ? {} : { snapshots }),
  };
  const backends = createSandboxBackends(options);
  // A VM that waits is a copy of a snapshot.
  const warm =
    counts.length === 0 || snapshots === null
      ? null
      : createWarmVms({
          counts,
          vmsDir: vms,
          launch: createLauncher(withQemu(options)),
          isDiskLow: () => readDiskRoom(stateDir).isLow,
          identify: async () => await identifyOfSnapshot(await pieces()),
          log: (text) => log('warning', text),
        });
  let sweeping: Promise<readonly SweptHostVm[]> | null = null;
  return {
    vmOverheadMib: async () => largestOverheadMib(await readHostFacts(keeper)),
    backendFor: (plan) => noteLaunches(selectBackend(backends, plan), warm),
    warm,
    release: (key) => backends.qemu.release(key),
    sweep: () => (sweeping ??= sweepVms(keeper, vms).finally(() => (sweeping = null))),
    async keepAlive(key) {
      await keepVmAlive(vmRunDir(vms, key), AbortSignal.timeout(KEEP_ALIVE_LIMIT_MS));
    },
  };
}

async function identifyOfSnapshot({ keeper, qemu, kernel, initramfs }: HostPieces): Promise<string> {
  const { path, uncompressedPath } = kernel;
  return await identifyFiles([
    keeper,
    qemu,
    path,
    ...(uncompressedPath === undefined ? [] : [uncompressedPath]),
    initramfs,
  ]);
}

function noteLaunches(backend: SandboxBackend, warm: WarmVms | null): SandboxBackend {
  if (warm === null) return backend;
  return {
    ...backend,
    launch(...call) {
      warm.noteLaunch();
      return backend.launch(...call);
    },
  };
}
