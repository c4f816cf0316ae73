/** The memory of this host that VMs may take, with those counted that live already. */
import { createCapacity, type Capacity, type CapacityOptions } from '../activities/capacity.ts';
import { vmKeyText } from '../domain/run/vm-key.ts';
import { readHostMemory, vmBudgetMib, type HostMemory } from '../setup/host-memory.ts';
import type { HostVm } from './janitor.ts';

export interface VmCapacityOptions {
  /** What each VM takes beside its guest's memory. */
  readonly overheadMib: number;
  readonly living: readonly HostVm[];
  readonly disk: CapacityOptions['disk'];
  readonly readMemory?: () => HostMemory;
}

export function createVmCapacity({
  overheadMib,
  living,
  disk,
  readMemory = readHostMemory,
}: VmCapacityOptions): Capacity {
  const capacity = createCapacity({
    overheadMib,
    budgetMib: vmBudgetMib(readMemory().totalMib),
    availableMib: () => readMemory().availableMib,
    disk,
  });
  for (const vm of living) if (vm.alive) capacity.countLive(vmKeyText(vm.key), vm.memoryMib);
  return capacity;
}
