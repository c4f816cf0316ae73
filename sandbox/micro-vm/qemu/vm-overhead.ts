/** What a VM takes of its host beside its guest's memory: QEMU and the keeper. The figures stand in docs/reference/keeper.md. */
import type { HostFacts } from '../../../native/index.ts';

export type Accelerator = 'kvm' | 'tcg';

/** An emulated CPU comes with a cache of translated code (`tb-size` in the keeper), which a large program fills. */
export const VM_OVERHEAD_MIB: Readonly<Record<Accelerator, number>> = { kvm: 160, tcg: 384 };

/** An emulated KVM runs no stock kernel; only hardware counts. */
export function acceleratorOf(host: HostFacts): Accelerator {
  return host.kvm === 'hardware' ? 'kvm' : 'tcg';
}

export function readOverheadMib(host: HostFacts): number {
  return VM_OVERHEAD_MIB[acceleratorOf(host)];
}
