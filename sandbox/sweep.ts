/** What run directories say about the VMs of a host: for a worker's start, for admission, for cleaning up. */
import { join } from 'node:path';
import type { VmNeed } from '../activities/ports/leases.ts';
import type { VmKey } from '../activities/ports/sandbox.ts';
import type { Retention } from '../domain/run/retained-vm.ts';
import { parseVmKey } from '../domain/run/vm-key.ts';
import { readIntent, readRetention, sweepRunDirs } from '../native/index.ts';

/** All run directories together; beyond it dead VMs lose theirs, oldest first. */
export const RUN_DIRS_BUDGET_BYTES = 4 * 1024 * 1024 * 1024;

export interface SweptHostVm {
  readonly key: VmKey;
  /** A keeper runs it, whether or not any worker holds it. */
  readonly alive: boolean;
  /** What it was launched with; nothing for one that is not alive. */
  readonly need: VmNeed;
  readonly sizeBytes: number;
  /** A failed stage has left it for a look, and its keeper ends it; null: not, or it is not alive. */
  readonly retention: Retention | null;
}

/**
 * Removes what stopped VMs left, and beyond the budget what other dead ones did; lists the rest. That a VM was
 * stopped stays known for 15 minutes.
 * A directory that holds no readable intent is no VM and is not listed.
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
  // Removed between the listing and now.
  if (intent === null) return NOTHING;
  const count = (name: keyof VmNeed): number => (typeof intent[name] === 'number' ? intent[name] : 0);
  return { memoryMib: count('memoryMib'), vcpus: count('vcpus'), diskMib: count('diskMib') };
}
