/** The facts that a launch needs about the VMM of its VM. */
import type { HostFacts, LaunchConfig } from '../../native/index.ts';

/** A VMM of this host, with its own pieces. */
export interface Vmm {
  /**
   * Returns the settings for VMs on a host with these facts.
   * @throws CodedError `host/not-ready` if the VMM cannot run there, or lacks a piece
   */
  readonly launchOn: (host: HostFacts, size: VmSize) => VmmLaunch | Promise<VmmLaunch>;
}

/** The parts of a VM on which the choice of a VMM depends. */
export interface VmSize {
  readonly vcpus: number;
}

export interface VmmLaunch {
  /** The settings with which the keeper starts the VMM. */
  readonly settings: LaunchConfig['vmm'];
  readonly kernel: LaunchConfig['kernel'];
  /** The host memory that a VM uses in addition to its guest's memory, the keeper included. */
  readonly overheadMib: number;
  /** One boot without the agent's hello counts as hung after this time; the keeper tries twice. */
  readonly bootTimeoutMs: number;
}
