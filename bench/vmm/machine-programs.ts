/** Compiles the programs in `bench/vmm/machine/`: the floor, the guest's first program, and what measures. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findCargo } from '../../setup/pieces/rust-toolchain.ts';
import type { SetupContext } from '../../setup/pieces/piece.ts';

const TARGET = 'x86_64-unknown-linux-musl';
const BUILD_TIMEOUT_MS = 600_000;

export interface MachinePrograms {
  readonly floor: string;
  readonly init: string;
  readonly measure: string;
  readonly hold: string;
}

/** @throws Error with the output of cargo */
export async function buildMachinePrograms(context: SetupContext): Promise<MachinePrograms> {
  const { path: cargo } = await findCargo(context);
  const folder = join(context.packageRoot, 'bench', 'vmm', 'machine');
  context.progress('compiling the programs of the bench');
  await promisify(execFile)(cargo, ['build', '--release', '--locked', '--target', TARGET], {
    cwd: folder,
    timeout: BUILD_TIMEOUT_MS,
  });
  const locate = (name: string): string => join(folder, 'target', TARGET, 'release', name);
  return { floor: locate('floor'), init: locate('init'), measure: locate('measure'), hold: locate('hold') };
}
