/** VMs in QEMU of a state folder. Any process of its user can launch and find them. */
import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SandboxFacts } from '../activities/ports/sandbox.ts';
import { CodedError, isCodedError } from '../domain/errors/coded-error.ts';
import type { SandboxMode } from '../domain/plan/plan.ts';
import { createDirectVmKey, directVmOf } from '../domain/run/direct-vm.ts';
import { formatBytes } from '../domain/units/bytes.ts';
import { endVm, MicroVm, readEntry, readIntent, sweepRunDirs, writeEntry } from '../native/index.ts';
import type { CheckpointOfVm } from '../sandbox/checkpoints/folder.ts';
import {
  createLauncher,
  factsOf,
  type FindRootDisk,
  type FindVmExtra,
  type LaunchVm,
  type MicroVmOptions,
  nameDevRoot,
} from '../sandbox/micro-vm/launch.ts';
import { useAutoVmm } from '../sandbox/micro-vm/auto.ts';
import { useNativeVmm } from '../sandbox/micro-vm/voidbox-vmm/backend.ts';
import { type QemuBackendOptions, withQemu } from '../sandbox/micro-vm/qemu/backend.ts';
import { createMicroVmSandbox } from '../sandbox/micro-vm/sandbox.ts';
import { RUN_DIRS_BUDGET_BYTES } from '../sandbox/sweep.ts';
import type { Environment } from '../setup/environment.ts';
import { readHostMemory, vmBudgetMib } from '../setup/machine/host-memory.ts';
import type { VmPieces } from '../setup/pieces/host-pieces.ts';
import { readDiskRoom } from '../store/disk-room.ts';
import type { LaunchChoice } from './launch-options.ts';
import { makeVmsFolder } from './state-folder.ts';
import { newSandboxId, noteOf, type OpenedVm, type SandboxInfo, type VmSource } from './vm-source.ts';

/** The lifetime of a VM that its process launched but could not tie to itself. */
const UNTIED_MS = 60_000;
const ASK_AGAIN_MS = 500;
/** The limit for a VM that is taken over: it has booted, or is about to. */
const READY_LIMIT_MS = 120_000;

export interface RealVmsOptions {
  readonly stateDir: string;
  readonly env: Pick<Environment, 'bootTimeoutMs' | 'diskFullLimitMs' | 'snapshots' | 'cpuTemplate'>;
  /** @throws CodedError `host/not-ready` */
  readonly pieces: () => Promise<VmPieces>;
  /** @throws CodedError `host/not-ready` */
  readonly extra: FindVmExtra;
  /** Absent: no VM can have an image that a user named. */
  readonly disk?: FindRootDisk;
  /** The memory of all VMs in the folder together; by default the share of this host for VMs. */
  readonly budgetMib?: () => number;
}

type UseVmm = (options: QemuBackendOptions) => MicroVmOptions;

/** Simulated VMs have a source of their own. */
const VMMS: Readonly<Record<Exclude<SandboxMode, 'mock'>, UseVmm>> = {
  auto: useAutoVmm,
  qemu: withQemu,
  vmm: useNativeVmm,
};

export function createRealVms({
  stateDir,
  env,
  pieces,
  extra,
  disk,
  budgetMib = hostBudgetMib,
}: RealVmsOptions): VmSource {
  const launcherOf = (vms: string, keeper: string, mode: Exclude<SandboxMode, 'mock'>): LaunchVm =>
    createLauncher(
      VMMS[mode]({
        vmsDir: vms,
        keeper,
        pieces,
        extra,
        ...(disk === undefined ? {} : { disk }),
        budgetMib,
        // A VM that needs more memory than all VMs together may have can never start.
        hostMemoryMib: budgetMib,
        ...(env.bootTimeoutMs === null ? {} : { bootTimeoutMs: env.bootTimeoutMs }),
        ...(env.diskFullLimitMs === null ? {} : { diskFullLimitMs: env.diskFullLimitMs }),
        cpuTemplate: env.cpuTemplate,
        ...(env.snapshots === null ? {} : { snapshots: env.snapshots }),
      }),
    );

  return {
    async launch(choice, signal) {
      const vms = await makeVmsFolder(stateDir);
      const { keeper } = await pieces();
      // Removes what killed keepers left, because there may be no worker that does this.
      await sweepRunDirs(keeper, vms, RUN_DIRS_BUDGET_BYTES);
      refuseFullDisk(stateDir);
      const { mode } = choice.spec;
      if (mode === 'mock') throw new CodedError('internal/bug', 'a simulated VM has a source of its own');
      return await launchSandbox(launcherOf(vms, keeper, mode), vms, keeper, choice, signal);
    },

    async connect(id, signal) {
      const vms = await makeVmsFolder(stateDir);
      const { keeper } = await pieces();
      const dir = dirOf(vms, id);
      const intent = await readIntent(dir);
      const info = infoOf(intent);
      if (info === null || info.id !== id) return null;
      const vm = await MicroVm.attach({ keeper, dir, vmKey: createDirectVmKey(id) }, signal);
      if (vm === null) return null;
      try {
        await vm.tie(info.keepTtlMs !== null);
        const facts = factsOf(vm, await vm.ready(READY_LIMIT_MS, signal));
        const { env } = (await readEntry(dir)) ?? { env: {} };
        const sandbox = createMicroVmSandbox(vm, facts, describeDisk(intent, facts), env, () => undefined);
        return { vm: sandbox, notices: noticesOf(vm), info };
      } catch (error) {
        vm.close();
        throw error;
      }
    },

    async list() {
      const vms = await makeVmsFolder(stateDir);
      const { keeper } = await pieces();
      const living = (await sweepRunDirs(keeper, vms, RUN_DIRS_BUDGET_BYTES)).filter(
        (vm) => vm.state === 'running' && !vm.ended,
      );
      const found = await Promise.all(living.map(async ({ name }) => infoOf(await readIntent(join(vms, name)))));
      return found.filter((info) => info !== null).toSorted((a, b) => a.launchedAtMs - b.launchedAtMs);
    },
  };
}

async function launchSandbox(
  launch: LaunchVm,
  vms: string,
  keeper: string,
  choice: LaunchChoice,
  signal: AbortSignal,
): Promise<OpenedVm> {
  const id = newSandboxId();
  const note = noteOf(id, choice);
  const wanted = {
    name: createDirectVmKey(id),
    dir: dirOf(vms, id),
    what: `sandbox ${choice.name ?? id}`,
    spec: choice.spec,
    extra: { discard: true, note: { ...note }, orphanTimeoutMs: choice.keepTtlMs ?? UNTIED_MS },
  };
  const { vm, env, root, saver, ready } = await waitForRoom(choice.waitMs, signal, () => launch(wanted, signal)).catch(
    async (error: unknown) => {
      // An aborted launch may have started a keeper. No later call uses this id again.
      await endVm(keeper, wanted.dir, wanted.name).catch(() => undefined);
      await rm(wanted.dir, { recursive: true, force: true }).catch(() => undefined);
      throw error;
    },
  );
  try {
    await writeImageVariables(wanted.dir, env);
    await vm.tie(choice.keepTtlMs !== null);
    const { memoryMib, vcpus, diskMib } = choice.spec;
    const facts = await ready(signal);
    const disk = { diskMib, vmm: facts.vmm, root, kernelKind: facts.kernel };
    const sandbox = createMicroVmSandbox(vm, facts, disk, env, () => undefined, saver);
    return { vm: sandbox, notices: noticesOf(vm), info: { ...note, mode: readMode(facts.vmm), memoryMib, vcpus } };
  } catch (error) {
    await vm.stop().catch(() => vm.close());
    throw error;
  }
}

/** Leaves the variables of the image for processes that connect to the VM. An image without variables needs no file. */
async function writeImageVariables(dir: string, env: Readonly<Record<string, string>>): Promise<void> {
  if (Object.keys(env).length > 0) await writeEntry(dir, { env });
}

function noticesOf(vm: MicroVm): OpenedVm['notices'] {
  return (offset, signal) => vm.notices(offset, signal);
}

async function waitForRoom<T>(waitMs: number, signal: AbortSignal, launch: () => Promise<T>): Promise<T> {
  const deadlineMs = Date.now() + waitMs;
  for (;;) {
    try {
      return await launch();
    } catch (error) {
      const mayWait = isCodedError(error) && error.code === 'vm/no-capacity' && Date.now() < deadlineMs;
      if (!mayWait) throw error;
      await sleep(ASK_AGAIN_MS, undefined, { signal });
    }
  }
}

function hostBudgetMib(): number {
  return vmBudgetMib(readHostMemory().totalMib);
}

function refuseFullDisk(stateDir: string): void {
  const room = readDiskRoom(stateDir);
  if (room.availableBytes >= room.floorBytes) return;
  throw new CodedError(
    'vm/no-capacity',
    `${formatBytes(room.availableBytes)} are free where VMs are stored (${stateDir}), and no VM starts with less than ${formatBytes(room.floorBytes)}: free space (voidbox prune)`,
  );
}

function dirOf(vms: string, id: string): string {
  return join(vms, createHash('sha256').update(createDirectVmKey(id)).digest('hex').slice(0, 16));
}

/** Describes the disk of a VM that another process may have launched. */
function describeDisk(intent: Readonly<Record<string, unknown>> | null, { vmm, kernel }: SandboxFacts): CheckpointOfVm {
  const { diskMib, rootDisk } = intent ?? {};
  return {
    diskMib: typeof diskMib === 'number' ? diskMib : 0,
    vmm,
    root: typeof rootDisk === 'string' ? nameDevRoot(rootDisk) : null,
    kernelKind: kernel,
  };
}

/** Every real VM has one of two VMMs; the oldest keepers had only QEMU. */
function readMode(vmm: unknown): 'qemu' | 'vmm' {
  return vmm === 'vmm' ? 'vmm' : 'qemu';
}

function infoOf(intent: Readonly<Record<string, unknown>> | null): SandboxInfo | null {
  const direct = directVmOf(intent);
  if (direct === null) return null;
  const count = (name: 'memoryMib' | 'vcpus'): number => (typeof intent?.[name] === 'number' ? intent[name] : 0);
  const { vmm } = intent ?? {};
  const mode = readMode((vmm as { readonly name?: unknown } | undefined)?.name);
  return { ...direct, mode, memoryMib: count('memoryMib'), vcpus: count('vcpus') };
}
