/** What a launch needs to know of the VMM that runs its VM. */
import type { HostFacts, LaunchConfig } from '../../native/index.ts';

/** A VMM of this host, with its own pieces. */
export interface Vmm {
  /** How it runs VMs on a host with these facts. */
  readonly launchOn: (host: HostFacts) => VmmLaunch;
}

export interface VmmLaunch {
  /** For the keeper, which starts the VMM. */
  readonly settings: LaunchConfig['vmm'];
  readonly kernel: LaunchConfig['kernel'];
  /** What a VM takes of its host beside its guest's memory, the keeper included. */
  readonly overheadMib: number;
  /** One boot without the agent's hello counts as hung after this time; the keeper tries twice. */
  readonly bootTimeoutMs: number;
}
