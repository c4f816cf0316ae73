/** Finds the sizes of VMs that a plan needs, each once: VMs of one size start from the same snapshot. */
import { agentPartsOf } from '../../domain/agent/agent-cli.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import type { BaseSize } from '../../sandbox-api/base-snapshots.ts';

export type { BaseSize };

export interface BaseSizes {
  readonly sizes: readonly BaseSize[];
  /** VMs with `snapshot: none`, which boot. */
  readonly bootingVms: number;
}

export function listBaseSizes({ scopes, stages }: Pick<Plan, 'scopes' | 'stages'>): BaseSizes {
  const sizes = new Map<string, BaseSize>();
  let bootingVms = 0;
  for (const scope of scopes) {
    const { mode, memoryMib, vcpus, mounts, start } = scope.sandbox;
    if (mode === 'mock') continue;
    if (start === 'cold') {
      bootingVms += 1;
      continue;
    }
    const { layers, image } = agentPartsOf(scope, stages);
    const hasMounts = layers.length > 0 || mounts.some((mount) => mount.mode === 'ro');
    const size = {
      memoryMib,
      vcpus,
      hasMounts,
      ...(image === undefined ? {} : { image }),
      mode,
    };
    sizes.set(JSON.stringify([memoryMib, vcpus, hasMounts, image ?? null, mode]), size);
  }
  return { sizes: [...sizes.values()], bootingVms };
}
