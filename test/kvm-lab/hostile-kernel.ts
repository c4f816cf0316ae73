/** Compiles the test that starts VMs of `voidbox-vmm` with a hostile kernel, for the lab. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { SetupContext } from '../../setup/pieces/piece.ts';
import { findCargo } from '../../setup/pieces/rust-toolchain.ts';

const TEST = 'ring0';
const COMPILE_LIMIT_MS = 600_000;
const OUTPUT_LIMIT_BYTES = 64 << 20;

/** @throws Error with the output of cargo */
export async function buildHostileKernelTest(context: SetupContext): Promise<string> {
  const { path: cargo } = await findCargo(context);
  context.progress('compiling the test of the hostile kernel');
  const words = ['test', '-p', 'voidbox-vmm', '--test', TEST, '--no-run', '--locked', '--message-format=json'];
  const { stdout } = await promisify(execFile)(cargo, words, {
    cwd: context.packageRoot,
    timeout: COMPILE_LIMIT_MS,
    maxBuffer: OUTPUT_LIMIT_BYTES,
  });
  const path = findTestProgram(stdout);
  if (path === null) throw new Error(`cargo names no program of the test ${TEST}`);
  return path;
}

interface Artifact {
  readonly target?: { readonly name?: unknown; readonly kind?: readonly unknown[] };
  readonly executable?: unknown;
}

/** Finds the program of the test in the messages of cargo. */
export function findTestProgram(messages: string): string | null {
  for (const line of messages.split('\n').filter((text) => text.startsWith('{'))) {
    const { target, executable } = JSON.parse(line) as Artifact;
    const isTest = target?.name === TEST && target.kind?.includes('test') === true;
    if (isTest && typeof executable === 'string') return executable;
  }
  return null;
}
