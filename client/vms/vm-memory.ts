/** The memory by which VMs are admitted here, for those who ask and run none. */
import { inspectHostMemory, vmBudgetMib } from '../../setup/machine/host-memory.ts';

export interface VmMemory {
  /** The most memory that all VMs together may use, their overhead included. */
  readonly budgetMib: number;
  /** The memory of which `budgetMib` is a share. */
  readonly totalMib: number;
  readonly availableMib: number;
  /** Folder of the cgroup whose limit `totalMib` is; null when it is the machine's memory. */
  readonly limitedBy: string | null;
}

/** @param workerPid  the worker that admits them; null: one that would be started from here */
export function readVmMemory(workerPid: number | null): VmMemory {
  const memory = inspectHostMemory(workerPid ?? 'self');
  return { budgetMib: vmBudgetMib(memory.totalMib), ...memory };
}
