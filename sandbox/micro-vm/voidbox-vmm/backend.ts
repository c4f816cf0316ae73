/** The backend with `voidbox-vmm`, which plans name `vmm`. */
import type { SandboxBackend } from '../../../activities/ports/sandbox.ts';
import { createMicroVmBackend } from '../backend.ts';
import type { MicroVmOptions } from '../launch.ts';
import type { QemuBackendOptions } from '../qemu/backend.ts';
import { createNativeVmm } from './voidbox-vmm.ts';

/** The pieces of both VMMs come from one set-up; the program itself is a piece that only some VMs need. */
export type NativeBackendOptions = QemuBackendOptions;

export function createNativeBackend(options: NativeBackendOptions): SandboxBackend {
  return createMicroVmBackend('vmm', useNativeVmm(options));
}

/** Returns the options of a launcher whose VMM is `voidbox-vmm`. */
export function useNativeVmm(options: NativeBackendOptions): MicroVmOptions {
  return {
    ...options,
    pieces: async () => {
      const pieces = await options.pieces();
      const vmm = createNativeVmm(pieces, () => options.extra('vmm'), options.cpuTemplate);
      return { keeper: pieces.keeper, initramfs: pieces.initramfs, vmm };
    },
  };
}
