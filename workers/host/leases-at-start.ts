/** The leases of this host as its worker finds it: by its memory, with the VMs counted that live already. */
import type { Leases } from '../../activities/ports/leases.ts';
import { readHostMemory, vmBudgetMib, type HostMemory } from '../../setup/machine/host-memory.ts';
import { createHostLeases, type HostLeasesOptions } from './leases.ts';
import type { HostVm } from './janitor.ts';

export interface LeasesAtStartOptions extends Pick<HostLeasesOptions, 'placement' | 'overheadMib' | 'disk'> {
  readonly living: readonly HostVm[];
  readonly readMemory?: () => HostMemory;
}

export async function leasesAtStart({
  living,
  readMemory = readHostMemory,
  ...options
}: LeasesAtStartOptions): Promise<Leases> {
  const leases = createHostLeases({
    ...options,
    budgetMib: vmBudgetMib(readMemory().totalMib),
    availableMib: () => readMemory().availableMib,
  });
  for (const vm of living) if (vm.alive) await leases.renew(vm.key, vm.need);
  return leases;
}
