/**
 * The host memory that a VM uses in addition to its guest's memory, for QEMU and the keeper. docs/reference/keeper.md lists the
 * figures.
 */
import type { HostFacts } from '../../../native/index.ts';

export type Accelerator = 'kvm' | 'tcg';

/** An emulated CPU needs a cache of translated code (`tb-size` in the keeper), which a large program fills. */
export const VM_OVERHEAD_MIB: Readonly<Record<Accelerator, number>> = { kvm: 160, tcg: 384 };

/** Only hardware KVM counts, because an emulated KVM runs no stock kernel. */
export function acceleratorOf(host: HostFacts): Accelerator {
  return host.kvm === 'hardware' ? 'kvm' : 'tcg';
}

export function readOverheadMib(host: HostFacts): number {
  return VM_OVERHEAD_MIB[acceleratorOf(host)];
}
