/** The task of the program that measures, a file of JSON, and the lines that it writes about its results. */
import type { QemuPieces } from '../../sandbox/micro-vm/qemu/qemu.ts';
import type { ArmResult } from '../measure.ts';

export interface BenchTask {
  /** The figures of `part` are taken. The lab of `two-cpus` has two CPUs. */
  readonly part: 'start' | 'first-command' | 'warm' | 'snapshots' | 'two-cpus';
  readonly rounds: number;
  /** With Debian's kernel. */
  readonly pieces: QemuPieces;
  /** With Voidbox's own kernel; null: it is not built. */
  readonly own: QemuPieces | null;
  /** The path of `voidbox-vmm`. */
  readonly vmm: string;
  readonly machine: MachineFiles;
  readonly bootTimeoutMs: number;
}

/** Files for VMs without a keeper. */
export interface MachineFiles {
  readonly measure: string;
  readonly floor: string;
  /** Keeps KVM from changing its own code. */
  readonly hold: string;
  /** An initramfs whose first program prints a line. */
  readonly initramfs: string;
  readonly kernel: MachineKernel;
}

export interface MachineKernel {
  /** Voidbox's own kernel if it is built. */
  readonly kind: 'debian' | 'voidbox';
  /** An ELF file. */
  readonly path: string;
}

/** The rounds of each arm, by its name. */
export type Results = ReadonlyMap<string, ArmResult<string>>;

export type BenchLine =
  | { readonly kind: 'say'; readonly text: string }
  | { readonly kind: 'result'; readonly result: ArmResult<string> }
  /** The last line. */
  | { readonly kind: 'exit'; readonly code: number };

/** @throws Error for anything but a line of the program */
export function parseBenchLine(text: string): BenchLine {
  const refuse = (): Error => new Error(`this is not a line of the bench: ${JSON.stringify(text.slice(0, 200))}`);
  let line: unknown;
  try {
    line = JSON.parse(text);
  } catch {
    throw refuse();
  }
  if (typeof line !== 'object' || line === null) throw refuse();
  const { kind } = line as { kind?: unknown };
  if (kind !== 'say' && kind !== 'result' && kind !== 'exit') throw refuse();
  return line as BenchLine;
}
