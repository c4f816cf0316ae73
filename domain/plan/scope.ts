/** Decides whether several stages share the VM of a scope. */
import type { ScopePlan } from './plan.ts';

/** Returns false if the activity of the only stage owns the VM, so that each attempt has a new one. */
export function isSharedScope({ stages, keepsVm }: Pick<ScopePlan, 'stages' | 'keepsVm'>): boolean {
  return stages.length > 1 || keepsVm === true;
}
