/** The VMM that `mode: auto` takes on a host: the one whose VMs end their first command sooner. */
import type { SandboxBackend } from '../../activities/ports/sandbox.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { NATIVE_VMM_VCPUS } from '../../domain/plan/defaults.ts';
import { createMicroVmBackend } from './backend.ts';
import type { MicroVmOptions } from './launch.ts';
import type { QemuBackendOptions } from './qemu/backend.ts';
import { createQemu, type QemuPieces } from './qemu/qemu.ts';
import type { Vmm } from './vmm.ts';
import { createNativeVmm } from './voidbox-vmm/voidbox-vmm.ts';

/**
 * On hardware KVM `voidbox-vmm` restores a VM in less time than QEMU does (ADR 165), and elsewhere only QEMU
 * runs. A host without the program, and a VM with more CPUs than it can have, take QEMU too: `auto` never fails for its choice.
 */
export function createAutoVmm(native: Vmm, qemu: Vmm): Vmm {
  return {
    async launchOn(host, size) {
      if (host.kvm !== 'hardware' || size.vcpus > NATIVE_VMM_VCPUS) return await qemu.launchOn(host, size);
      try {
        return await native.launchOn(host, size);
      } catch (error) {
        if (isCodedError(error) && error.code === 'host/not-ready') return await qemu.launchOn(host, size);
        throw error;
      }
    },
  };
}

export function createAutoBackend(options: QemuBackendOptions): SandboxBackend {
  return createMicroVmBackend('auto', useAutoVmm(options));
}

/** A kernel that a user names has the drivers of QEMU's devices; it may lack vsock. */
function chooseVmm(pieces: QemuPieces, { extra, cpuTemplate }: QemuBackendOptions): Vmm {
  const qemu = createQemu(pieces);
  if (pieces.kernel.isOfSetup !== true) return qemu;
  return createAutoVmm(
    createNativeVmm(pieces, () => extra('vmm'), cpuTemplate),
    qemu,
  );
}

/** Returns the options of a launcher that takes either VMM. */
export function useAutoVmm(options: QemuBackendOptions): MicroVmOptions {
  return {
    ...options,
    pieces: async () => {
      const pieces = await options.pieces();
      return { keeper: pieces.keeper, initramfs: pieces.initramfs, vmm: chooseVmm(pieces, options) };
    },
  };
}
