/** The attempts and generations that the run machine can reach under a plan. The machine never asks for later ones. */
import { isSharedScope } from '../plan/scope.ts';
import { type ScopePlan, type StagePlan } from '../plan/plan.ts';
import { LOST_VM_ATTEMPTS } from '../errors/code-info.ts';

/**
 * The highest attempt of a stage. Each attempt before the last ended in one of two ways: as a failure that counts
 * against the author's `retry`, or with the loss of its VM. In a shared scope, the loss also repeats finished stages.
 */
export function lastAttempt({ retry, visits = 1 }: AttemptLimits): number {
  return (retry.maxAttempts + LOST_VM_ATTEMPTS) * visits;
}

/** Attempt numbers continue from visit to visit of a loop. */
type AttemptLimits = Pick<StagePlan, 'retry' | 'visits'>;

/** The highest generation of a scope's VM. The stage of a scope that is not shared has a new VM for each attempt. */
export function lastGeneration(
  scope: Pick<ScopePlan, 'stages' | 'keepsVm'>,
  stageOf: (id: string) => AttemptLimits | undefined,
): number {
  const only = isSharedScope(scope) ? undefined : stageOf(scope.stages[0]!);
  return only === undefined ? LOST_VM_ATTEMPTS : lastAttempt(only) - 1;
}

/** Whether the machine can ask for this attempt in a VM of this generation. */
export function isReachable(stage: AttemptLimits, isShared: boolean, attempt: number, generation: number): boolean {
  if (!Number.isSafeInteger(attempt) || attempt < 1 || attempt > lastAttempt(stage)) return false;
  if (!Number.isSafeInteger(generation) || generation < 0) return false;
  // A VM that one stage owns is used for one attempt.
  return isShared ? generation <= LOST_VM_ATTEMPTS : generation === attempt - 1;
}
