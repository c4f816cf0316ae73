/** `voidbox-vmm` as the VMM of a host, which plans name `vmm`. */
import { dirname, join } from 'node:path';
import { CodedError } from '../../../domain/errors/coded-error.ts';
import type { CpuTemplate, HostFacts } from '../../../native/index.ts';
import type { QemuPieces } from '../qemu/qemu.ts';
import type { Vmm, VmmLaunch } from '../vmm.ts';

/** The host memory that a VM uses in addition to its guest's memory: 6 for the VMM, its jail and the keeper, 2 for the server of mounts, and as much again. */
export const NATIVE_OVERHEAD_MIB = 16;
/** It is next to the VMM, because one build makes both. */
const FOLDERS_PROGRAM = 'voidbox-folders';
const BOOT_TIMEOUT_MS = 20_000;

/** All paths are absolute. */
export type NativePieces = Pick<QemuPieces, 'mke2fs' | 'kernel'>;

const PROBLEMS: Readonly<Record<Exclude<HostFacts['kvm'], 'hardware'>, string>> = {
  emulated:
    '/dev/kvm of this host is an emulation, on which no kernel boots: use a host, or a VM with nested virtualization, whose CPU shows vmx or svm',
  none: 'this host has no /dev/kvm: turn on virtualization in the firmware and load kvm_intel or kvm_amd',
  'no-permission': '/dev/kvm of this host may not be used: sudo usermod -aG kvm $USER',
};

export interface NativeVmm extends Vmm {
  readonly launchOn: (host: HostFacts) => Promise<VmmLaunch>;
}

/**
 * @param findProgram  finds `voidbox-vmm`; asked for only on a host that can run it
 */
export function createNativeVmm(
  { mke2fs, kernel }: NativePieces,
  findProgram: () => Promise<string>,
  cpu: CpuTemplate = 'host',
): NativeVmm {
  return {
    async launchOn({ kvm }) {
      if (kvm !== 'hardware')
        throw new CodedError('host/not-ready', `mode: vmm needs hardware KVM, and ${PROBLEMS[kvm]}; or use mode: qemu`);
      const program = await findProgram();
      return {
        settings: {
          name: 'vmm',
          program,
          folders: join(dirname(program), FOLDERS_PROGRAM),
          mke2fs,
          cpu,
          ...(kernel.isOfSetup === true ? { pmem: true } : {}),
        },
        // Unpacking a kernel takes longer than the rest of its boot to the first program.
        kernel: { path: kernel.uncompressedPath ?? kernel.path, kind: kernel.kind },
        overheadMib: NATIVE_OVERHEAD_MIB,
        bootTimeoutMs: BOOT_TIMEOUT_MS,
      };
    },
  };
}
