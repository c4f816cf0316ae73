/** VMs in QEMU, each behind its keeper. */
import { kill } from 'node:process';
import type { LaunchSpec, Sandbox, SandboxBackend, SandboxFacts, VmKey } from '../../activities/ports/sandbox.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { vmKeyText } from '../../domain/run/vm-key.ts';
import {
  MicroVm,
  isAlive,
  isVmGone,
  readHostFacts,
  readRunDir,
  sealRunDir,
  type HostFacts,
  type LaunchConfig,
  type VmStatus,
  vmRunDir,
} from '../../native/index.ts';
import { createQemuSandbox } from './sandbox.ts';
import { acceleratorOf, VM_OVERHEAD_MIB, type Accelerator } from './vm-overhead.ts';

/**
 * One boot without the agent's hello counts as hung; the keeper tries twice. Emulated, a boot takes 5 s on
 * an idle machine and 30 s on one with six times as much to do as it has cores.
 */
const BOOT_TIMEOUT_MS = { kvm: 20_000, tcg: 45_000 } as const;
/** Beyond both boots: making the disk, ending the first VM. */
const READY_GRACE_MS = 10_000;
/** After this long without an answer a keeper counts as stuck and its VM is ended from outside. */
const KILLED_LIMIT_MS = 10_000;

/** All paths are absolute. */
export interface QemuPieces {
  readonly keeper: string;
  readonly qemu: string;
  readonly bwrap: string;
  readonly mke2fs: string;
  readonly kernel: { readonly path: string; readonly kind: 'debian' | 'voidbox' };
  readonly initramfs: string;
}

export interface QemuBackendOptions {
  /** Folder of the run directories. */
  readonly vmsDir: string;
  /** The `voidbox-vm` binary: enough to end a VM, also where pieces that start one are gone. */
  readonly keeper: string;
  /** @throws CodedError `host/not-ready` that names what is missing and the line that brings it */
  readonly pieces: () => Promise<QemuPieces>;
  /** What the host could give to one VM that has it alone. */
  readonly hostMemoryMib: () => number;
  readonly bootTimeoutMs?: number;
  /** How long a guest may owe something without progress; the keeper's default otherwise. */
  readonly guestSilenceMs?: number;
  /** How long a VM waits while the disk is full; the keeper's own limit otherwise. */
  readonly diskFullLimitMs?: number;
  /** How long a VM lives whose lease nobody renews. */
  readonly orphanTimeoutMs?: number;
}

export function createQemuBackend(options: QemuBackendOptions): SandboxBackend {
  /** The newest holder of each VM in this process. */
  const holders = new Map<string, MicroVm>();
  let hostFacts: Promise<HostFacts> | null = null;

  const readHost = (keeper: string): Promise<HostFacts> => {
    hostFacts ??= readHostFacts(keeper).catch((error: unknown) => {
      hostFacts = null;
      throw error;
    });
    return hostFacts;
  };

  return {
    name: 'qemu',
    isolation: 'microvm',

    async launch(key, spec, signal): Promise<Sandbox> {
      const pieces = await options.pieces();
      const host = await readHost(pieces.keeper);
      const accelerator = acceleratorOf(host);
      refuseTooLarge(key, spec, accelerator, options.hostMemoryMib());
      const name = vmKeyText(key);
      const bootTimeoutMs = options.bootTimeoutMs ?? BOOT_TIMEOUT_MS[accelerator];
      const config = {
        ...launchConfig(name, spec, pieces, accelerator, { bootTimeoutMs, diskFullLimitMs: options.diskFullLimitMs }),
        ...(options.orphanTimeoutMs === undefined ? {} : { orphanTimeoutMs: options.orphanTimeoutMs }),
        ...(options.guestSilenceMs === undefined ? {} : { guestSilenceMs: options.guestSilenceMs }),
      };
      const vm = await MicroVm.launch({ keeper: pieces.keeper, dir: vmRunDir(options.vmsDir, key), config }, signal);
      holders.get(name)?.close(new CodedError('fence/stale', `VM ${name}: a newer attempt in this process took over`));
      holders.set(name, vm);
      try {
        const facts = factsOf(vm, await vm.ready(2 * bootTimeoutMs + READY_GRACE_MS, signal));
        return createQemuSandbox(vm, facts, () => {
          if (holders.get(name) === vm) holders.delete(name);
        });
      } catch (error) {
        vm.close();
        if (holders.get(name) === vm) holders.delete(name);
        throw error;
      }
    },

    async release(key): Promise<void> {
      const name = vmKeyText(key);
      holders.get(name)?.close(new CodedError('vm/lost', `VM ${name} was released`));
      holders.delete(name);
      await endVm(options.keeper, vmRunDir(options.vmsDir, key), name);
    },
  };
}

function refuseTooLarge(key: VmKey, spec: LaunchSpec, accelerator: Accelerator, totalMib: number): void {
  const overheadMib = VM_OVERHEAD_MIB[accelerator];
  const needMib = spec.memoryMib + overheadMib;
  if (needMib <= totalMib) return;
  throw new CodedError(
    'vm/too-large',
    `scope ${key.scope} needs ${needMib} MiB (${spec.memoryMib} MiB of guest memory and ${overheadMib} MiB for the VM itself), the host has ${totalMib} MiB: lower memory_mb`,
  );
}

function launchConfig(
  vmKey: string,
  spec: LaunchSpec,
  pieces: QemuPieces,
  accelerator: LaunchConfig['accelerator'],
  { bootTimeoutMs, diskFullLimitMs }: { readonly bootTimeoutMs: number; readonly diskFullLimitMs: number | undefined },
): LaunchConfig {
  return {
    vmKey,
    memoryMib: spec.memoryMib,
    vcpus: spec.vcpus,
    diskMib: spec.diskMib,
    kernel: { path: pieces.kernel.path, kind: pieces.kernel.kind },
    initramfs: pieces.initramfs,
    accelerator,
    qemu: pieces.qemu,
    bwrap: pieces.bwrap,
    mke2fs: pieces.mke2fs,
    mounts: spec.mounts
      .filter((mount) => mount.mode === 'ro')
      .map(({ hostPath, guestPath }) => ({ hostPath, guestPath })),
    bootTimeoutMs,
    ...(diskFullLimitMs === undefined ? {} : { diskFullTimeoutMs: diskFullLimitMs }),
  };
}

/** @throws CodedError `host/isolation` for a VM without a jail */
function factsOf(vm: MicroVm, status: VmStatus): SandboxFacts {
  if (status.jail === '' || status.jail === 'none') {
    throw new CodedError(
      'host/isolation',
      `VM ${vm.vmKey} runs without a jail: voidbox doctor says how to get bubblewrap`,
    );
  }
  return {
    isolation: 'microvm',
    accelerator: status.accelerator,
    kernel: status.kernel,
    jail: status.jail,
    bootMs: status.bootMs,
    attached: vm.attached,
    vmLife: status.startedAtMs === null ? null : String(status.startedAtMs),
    hadCommands: status.execs.length > 0,
    fence: vm.fence,
  };
}

/**
 * Raises the fence, then stops; ends the keeper itself when it does not answer. Where there is no VM, none
 * can come later: a launch of an attempt that was held up finds its key stopped.
 */
async function endVm(keeper: string, dir: string, name: string): Promise<void> {
  if ((await sealRunDir(keeper, dir, name)) !== 'running') return;
  try {
    const vm = await MicroVm.attach({ keeper, dir, vmKey: name }, AbortSignal.timeout(KILLED_LIMIT_MS));
    // Gone by itself, or a launch that came to nothing.
    if (vm === null) await sealRunDir(keeper, dir, name);
    else await vm.stop();
    return;
  } catch (error) {
    const status = await readRunDir(keeper, dir);
    if (!isAlive(status)) return;
    const isStuck = isVmGone(error) || (error instanceof DOMException && error.name === 'TimeoutError');
    if (!isStuck || status.pid === null) throw error;
    // The lock is held, so its holder lives and the pid is its own; the VMM dies with it.
    kill(status.pid, 'SIGKILL');
  }
  const deadlineMs = Date.now() + KILLED_LIMIT_MS;
  while (isAlive(await readRunDir(keeper, dir))) {
    if (Date.now() > deadlineMs)
      throw new CodedError(
        'store/io',
        `VM ${name} still holds the lock of ${dir} ${KILLED_LIMIT_MS} ms after its keeper was killed`,
      );
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
