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
