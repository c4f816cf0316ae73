/** The pieces that the embedded stack needs even without VMs. All paths are absolute. */
export interface StackPieces {
  readonly temporalCli: string;
  /** The `voidbox-vm` binary: it keeps VMs, locks the stack's folder, and ties the stack's processes together. */
  readonly keeper: string;
}

/** The pieces that a host needs to run real VMs and the embedded stack: the result of set-up. */
export interface HostPieces extends StackPieces {
  readonly qemu: string;
  readonly bwrap: string;
  readonly mke2fs: string;
  readonly kernel: KernelPiece;
  readonly initramfs: string;
}

/** The pieces for VMs without the embedded stack. */
export type VmPieces = Omit<HostPieces, 'temporalCli'>;

export interface KernelPiece {
  readonly path: string;
  /** The same kernel as an ELF file, which an emulated CPU need not unpack. */
  readonly uncompressedPath?: string;
  readonly kind: 'debian' | 'voidbox';
  readonly version: string;
  /** Set-up has made it, so it has the drivers of `voidbox-vmm` (vsock, pmem and DAX). */
  readonly isOfSetup: boolean;
}
