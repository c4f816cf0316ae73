/** The program of the VMM that `mode: auto` takes on hardware KVM. */
import type { Environment } from './environment.ts';
import { isHardwareKvmDeclared } from './machine/hardware.ts';
import { resolveOptionalPieces, SetupError } from './resolve.ts';

/** Replaced by tests. */
export interface AutoVmmHost {
  readonly isHardwareKvmDeclared: () => boolean;
  readonly resolveOptionalPieces: typeof resolveOptionalPieces;
}

const HOST: AutoVmmHost = { isHardwareKvmDeclared, resolveOptionalPieces };

/**
 * Builds `voidbox-vmm` where `mode: auto` may take it. VMs take QEMU without it, so a piece that cannot be made is a line
 * and no error.
 */
export async function prepareAutoVmm(
  env: Environment,
  onProgress: (line: string) => void,
  host: AutoVmmHost = HOST,
): Promise<void> {
  if (!host.isHardwareKvmDeclared()) return;
  try {
    await host.resolveOptionalPieces(env, ['vmm'], { install: true, onProgress });
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    onProgress(`VMs with mode: auto take QEMU, because voidbox-vmm cannot be made: ${error.message}`);
  }
}
