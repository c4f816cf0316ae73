/** Decides to which stages the VM of a scope belongs. */
import type { ScopePlan } from './plan.ts';

/** False: the activity of its only stage owns the VM, and each attempt has a new one. */
export function isSharedScope({ stages, keepsVm }: Pick<ScopePlan, 'stages' | 'keepsVm'>): boolean {
  return stages.length > 1 || keepsVm === true;
}
