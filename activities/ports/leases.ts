/**
 * Decides which VMs may exist, and on which host. One authority serves all workers of a host, or all hosts that share a
 * store.
 */
import type { SandboxPlan } from '../../domain/plan/plan.ts';
import type { VmLease } from '../../domain/run/vm-lease.ts';
import type { VmKey } from './sandbox.ts';

/** The resources that a plan promises its VM. The authority adds the overhead of the VM on its host. */
export interface VmNeed extends Pick<SandboxPlan, 'memoryMib' | 'vcpus' | 'diskMib'> {
  /**
   * The host with the checkpoint with which the VM begins. A lease for another host is a VM with an empty disk. Absent:
   * any host.
   */
  readonly boundTo?: string | undefined;
}

/**
 * Each lease contains the memory, vCPUs and disk that its VM needs; each authority decides which of these it limits. A
 * lease that is not renewed expires automatically, later than its VM ends. So the authority regains room that no
 * release returned.
 */
export interface Leases {
  /**
   * Grants a lease. Idempotent: a key that holds a lease gets it again at once, even if others wait. Other keys get
   * leases in the order of their requests; a key that does not ask again loses its place. The lease may name another
   * host: the caller then launches no VM.
   * @throws CodedError `vm/no-capacity`, to be called again after its delay; `vm/too-large` for a VM that will never
   * fit
   */
  grant(key: VmKey, need: VmNeed): Promise<VmLease>;
  /**
   * Renews the lease of a VM that lives on this host, whatever the state of its run. It also counts a VM without a
   * lease: the authority was restarted, or another worker launched the VM. It never rejects a living VM, even if no
   * room is left. After the key's release it does nothing, because the caller may have listed its VMs before the
   * release.
   */
  renew(key: VmKey, need: VmNeed): Promise<void>;
  /** Ends the key's lease or its wait for one: the VM is gone, or its run no longer needs it. Idempotent. */
  release(key: VmKey): Promise<void>;
}
