/** The backend with QEMU, which plans name `qemu`. */
import type { SandboxBackend } from '../../../activities/ports/sandbox.ts';
import { createMicroVmBackend } from '../backend.ts';
import type { MicroVmOptions } from '../launch.ts';
import { createQemu, type QemuPieces } from './qemu.ts';

export interface QemuBackendOptions extends Omit<MicroVmOptions, 'pieces'> {
  /** @throws CodedError `host/not-ready` that names the missing piece and the command that provides it */
  readonly pieces: () => Promise<QemuPieces>;
}

export function createQemuBackend(options: QemuBackendOptions): SandboxBackend {
  return createMicroVmBackend('qemu', withQemu(options));
}

/** Returns the options of a launcher whose VMM is QEMU. */
export function withQemu(options: QemuBackendOptions): MicroVmOptions {
  return {
    ...options,
    pieces: async () => {
      const pieces = await options.pieces();
      return { keeper: pieces.keeper, initramfs: pieces.initramfs, vmm: createQemu(pieces) };
    },
  };
}
