/** QEMU as the VMM of a host. */
import type { HostFacts } from '../../../native/index.ts';
import type { Vmm, VmmLaunch } from '../vmm.ts';
import { acceleratorOf, readOverheadMib, type Accelerator } from './vm-overhead.ts';

/** An emulated boot takes 5 s on an idle machine, and 30 s on a machine with six times more work than cores. */
const BOOT_TIMEOUT_MS: Readonly<Record<Accelerator, number>> = { kvm: 20_000, tcg: 45_000 };

/** All paths are absolute. */
export interface QemuPieces {
  readonly keeper: string;
  readonly qemu: string;
  readonly bwrap: string;
  readonly mke2fs: string;
  readonly kernel: {
    readonly path: string;
    readonly kind: 'debian' | 'voidbox';
    readonly uncompressedPath?: string;
    /** Set-up has made it, so it has the drivers of `voidbox-vmm` (vsock, pmem and DAX). Absent: it may lack them. */
    readonly isOfSetup?: boolean;
  };
  readonly initramfs: string;
}

/** QEMU runs on each host. */
export interface Qemu extends Vmm {
  readonly launchOn: (host: HostFacts) => VmmLaunch;
}

export function createQemu(pieces: Pick<QemuPieces, 'qemu' | 'bwrap' | 'mke2fs' | 'kernel'>): Qemu {
  return {
    launchOn(host: HostFacts) {
      const accelerator = acceleratorOf(host);
      return {
        settings: {
          name: 'qemu',
          program: pieces.qemu,
          accelerator,
          bwrap: pieces.bwrap,
          mke2fs: pieces.mke2fs,
        },
        kernel: { path: kernelFor(accelerator, pieces), kind: pieces.kernel.kind },
        overheadMib: readOverheadMib(host),
        bootTimeoutMs: BOOT_TIMEOUT_MS[accelerator],
      };
    },
  };
}

/**
 * Chooses the kernel. An emulated CPU takes 0.6 s to unpack a kernel. A real CPU gets the compressed one, because its
 * unpacker also moves the kernel to a random address.
 */
function kernelFor(accelerator: Accelerator, { kernel }: Pick<QemuPieces, 'kernel'>): string {
  return accelerator === 'tcg' ? (kernel.uncompressedPath ?? kernel.path) : kernel.path;
}
