/**
 * Real VMs for tests: the pieces that set-up has installed, and a folder of run directories that is removed afterwards.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import type { LaunchSpec, SandboxBackend } from '../../../activities/ports/sandbox.ts';
import type { SnapshotFolder } from '../../../native/index.ts';
import type { FindVmExtra } from '../../../sandbox/micro-vm/backend.ts';
import { createNativeBackend } from '../../../sandbox/micro-vm/voidbox-vmm/backend.ts';
import { createQemuBackend } from '../../../sandbox/micro-vm/qemu/backend.ts';
import type { QemuPieces } from '../../../sandbox/micro-vm/qemu/qemu.ts';
import { sweepVms } from '../../../sandbox/sweep.ts';
import { readEnvironment } from '../../../setup/environment.ts';
import { resolveOptionalPieces } from '../../../setup/resolve.ts';

export interface RealHost {
  readonly pieces: QemuPieces;
  readonly vmsDir: string;
  readonly backend: SandboxBackend;
  /** Ends every VM that is left, and returns their names. */
  dispose(): Promise<readonly string[]>;
}

export const SMALL_VM: LaunchSpec = {
  mode: 'qemu',
  isolation: 'microvm',
  memoryMib: 192,
  vcpus: 1,
  diskMib: 64,
  mounts: [],
};

export async function createRealHost(
  pieces: QemuPieces,
  options: {
    readonly bootTimeoutMs?: number;
    readonly guestSilenceMs?: number;
    readonly snapshots?: SnapshotFolder | 'off';
    /** The path of `voidbox-vmm`, which then runs the VMs. Absent: QEMU does. */
    readonly vmm?: string;
    /** The root disk of the dev image. Absent: set-up finds it. */
    readonly devDisk?: string;
    /** The folder that gets the one of the run directories; absent: the one for temporary files. */
    readonly folder?: string;
  } = {},
): Promise<RealHost> {
  const { snapshots, vmm, devDisk, folder: parent = tmpdir(), ...limits } = options;
  const base = await mkdtemp(join(parent, 'voidbox-vms-'));
  const vmsDir = join(base, 'vms');
  const folder = snapshots === 'off' ? null : (snapshots ?? readEnvironment().snapshots);
  const findExtra: FindVmExtra = async (name) =>
    (await resolveOptionalPieces(readEnvironment(), [name], { install: true })).get(name)!;
  const backend = (vmm === undefined ? createQemuBackend : createNativeBackend)({
    vmsDir,
    keeper: pieces.keeper,
    pieces: async () => pieces,
    extra: async (name) => ({ vmm, dev: devDisk })[name as string] ?? (await findExtra(name)),
    hostMemoryMib: () => Math.floor(totalmem() / 2 ** 20),
    ...(folder === null ? {} : { snapshots: folder }),
    ...limits,
  });
  return {
    pieces,
    vmsDir,
    backend,
    async dispose() {
      const left = (await sweepVms(pieces.keeper, vmsDir)).filter((vm) => vm.alive);
      for (const vm of left) await backend.release(vm.key);
      await rm(base, { recursive: true, force: true });
      return left.map((vm) => `${vm.key.scope}/${vm.key.generation}`);
    },
  };
}
