/** Reads the VMs of a host from their run directories: for a worker's start, for admission, for cleaning up. */
import { join } from 'node:path';
import type { VmNeed } from '../activities/ports/leases.ts';
import type { VmKey } from '../activities/ports/sandbox.ts';
import type { Retention } from '../domain/run/retained-vm.ts';
import { parseVmKey } from '../domain/run/vm-key.ts';
import { readIntent, readRetention, sweepRunDirs } from '../native/index.ts';

/** The limit of all run directories together; beyond it, directories of dead VMs are removed, oldest first. */
export const RUN_DIRS_BUDGET_BYTES = 4 * 1024 * 1024 * 1024;

export interface SweptHostVm {
  readonly key: VmKey;
  /** Whether a keeper runs it, even if no worker holds it. */
  readonly alive: boolean;
  /** The resources in its launch intent; zero if it is not alive. */
  readonly need: VmNeed;
  readonly sizeBytes: number;
  /**
   * Set if a failed stage left the VM for inspection, and its keeper will end it; null if not, or if it is not alive.
   */
  readonly retention: Retention | null;
}

/**
 * Removes directories of stopped VMs, and beyond the budget also those of other dead VMs. Lists the rest. The keeper
 * remembers for 15 minutes that a VM was stopped. A directory without a readable intent is not a VM and is not listed.
 */
export async function sweepVms(
  keeper: string,
  vmsDir: string,
  budgetBytes: number = RUN_DIRS_BUDGET_BYTES,
): Promise<readonly SweptHostVm[]> {
  const left = (await sweepRunDirs(keeper, vmsDir, budgetBytes)).filter((vm) => !vm.removed && vm.vmKey !== null);
  const vms = await Promise.all(
    left.map(async (vm) => {
      const key = parseVmKey(vm.vmKey as string);
      const alive = vm.state === 'running' && !vm.ended;
      return key === null
        ? []
        : [
            {
              key,
              alive,
              need: alive ? await readIntendedNeed(join(vmsDir, vm.name)) : NOTHING,
              sizeBytes: vm.sizeBytes,
              retention: alive ? await readRetention(join(vmsDir, vm.name)) : null,
            },
          ];
    }),
  );
  return vms.flat();
}

const NOTHING: VmNeed = { memoryMib: 0, vcpus: 0, diskMib: 0 };

async function readIntendedNeed(runDir: string): Promise<VmNeed> {
  const intent = await readIntent(runDir);
  // The directory was removed after it was listed.
  if (intent === null) return NOTHING;
  const count = (name: keyof VmNeed): number => (typeof intent[name] === 'number' ? intent[name] : 0);
  return { memoryMib: count('memoryMib'), vcpus: count('vcpus'), diskMib: count('diskMib') };
}
