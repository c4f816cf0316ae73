/** Decides whether several stages share the VM of a scope. */
import type { ScopePlan } from './plan.ts';

/** Returns false if the activity of the only stage owns the VM, so that each attempt has a new one. */
export function isSharedScope({ stages, keepsVm }: Pick<ScopePlan, 'stages' | 'keepsVm'>): boolean {
  return stages.length > 1 || keepsVm === true;
}

/** Mocks may leave a scope with one stage, whose VM has nothing to resume after. */
export function isSavedEachStep({ stages, checkpoint }: Pick<ScopePlan, 'stages' | 'checkpoint'>): boolean {
  return checkpoint === 'each-step' && stages.length > 1;
}
