/** Which VMs may exist, and where: one authority for all workers of a host, or for all hosts that share a store. */
import type { SandboxPlan } from '../../domain/plan/plan.ts';
import type { VmLease } from '../../domain/run/vm-lease.ts';
import type { VmKey } from './sandbox.ts';

/** What a VM is promised by its plan. What it costs its host beside that is the authority's to add. */
export type VmNeed = Pick<SandboxPlan, 'memoryMib' | 'vcpus' | 'diskMib'>;

/**
 * Each lease says what its VM needs of memory, vCPUs and disk; which of these an authority bounds is its own to say. A lease that
 * is not renewed ends by itself, so late that its VM has ended before: room that no release gave back is not lost.
 */
export interface Leases {
  /**
   * Idempotent: a key that holds a lease gets it again, at no cost, whatever else waits. Others get one in the order of asking;
   * a key that is not asked for again loses its place. The lease may name another host: then the caller launches nothing.
   * @throws CodedError `vm/no-capacity`, to be asked again after its delay; `vm/too-large` for what will never fit
   */
  grant(key: VmKey, need: VmNeed): Promise<VmLease>;
  /**
   * The VM lives on this host, whatever has become of its run. It counts from now on if it did not: the authority was restarted, or another
   * worker launched the VM. A living VM is never refused, whatever room there is. After the key's release it does nothing,
   * because the caller may have looked before the release.
   */
  renew(key: VmKey, need: VmNeed): Promise<void>;
  /** The VM is gone, or its run does not need it any more: ends the key's lease, or its wait for one. Idempotent. */
  release(key: VmKey): Promise<void>;
}
