import { sanitizeLine } from '../../../domain/security/sanitize.ts';

export interface VmFacts {
  readonly isolation: string | null;
  readonly accelerator: string | null;
  readonly kernel: string | null;
  readonly jail: string | null;
}

/** What a VM runs on, each part by its name; of `mode: mock` that there is none. */
export function describeVmFacts({ isolation, accelerator, kernel, jail }: VmFacts): string {
  if (accelerator === 'mock') return 'simulated, no VM';
  const parts = [
    isolation ?? '-',
    `accelerator ${accelerator ?? '-'}`,
    `kernel ${kernel ?? '-'}`,
    `jail ${jail ?? '-'}`,
  ];
  return parts.map((part) => sanitizeLine(part)).join(', ');
}
