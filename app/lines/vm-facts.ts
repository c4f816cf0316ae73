import type { VmLimits } from '../../domain/run/event.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';

export interface VmFacts {
  readonly isolation: string | null;
  readonly vmm: string | null;
  readonly chosenBy?: string;
  readonly accelerator: string | null;
  readonly kernel: string | null;
  readonly jail: string | null;
}

/** Describes the platform of a VM, each part by its name; for `mode: mock`, that there is no VM. */
export function describeVmFacts({ isolation, vmm, chosenBy, accelerator, kernel, jail }: VmFacts): string {
  if (accelerator === 'mock') return 'simulated, no VM';
  const chosen = chosenBy === undefined ? '' : chosenBy === 'auto' ? ' by mode auto' : ' by the spec';
  const parts = [
    isolation ?? '-',
    `VMM ${vmm ?? '-'}${chosen}`,
    `accelerator ${accelerator ?? '-'}`,
    `kernel ${kernel ?? '-'}`,
    `jail ${jail ?? '-'}`,
  ];
  return parts.map((part) => sanitizeLine(part)).join(', ');
}

/** Describes the limits of a VM by control groups. The reason for a missing one is long, and `voidbox doctor` has it. */
export function describeVmLimits({ cpus, memoryMib }: VmLimits): string {
  const limits = [
    ...(cpus === null ? [] : [`${cpus} ${cpus === 1 ? 'CPU' : 'CPUs'}`]),
    ...(memoryMib === null ? [] : [`${memoryMib} MiB`]),
  ];
  return limits.length === 0 ? 'none' : limits.join(', ');
}
