/** Compiles the fields that stages of every kind share: edges, condition, and whether the failure is tolerated. */
import type { StagePlan } from '../../../plan/plan.ts';
import { listEdgesOnSuccess } from '../../../plan/work.ts';
import type { Condition } from './condition.ts';
import type { Links } from '../../link/linked.ts';
import type { StageSpec } from '../../read/spec.ts';

export function edgesOf(
  { dependsOn, onFailure }: Links,
  idOf: (index: number) => string,
): Pick<StagePlan, 'after' | 'anyFailure'> {
  const failures = onFailure.map((index) => ({ stage: idOf(index), on: 'failure' }) as const);
  return {
    after: [...listEdgesOnSuccess(dependsOn.map(idOf)), ...failures],
    ...(failures.length > 1 ? { anyFailure: true } : {}),
  };
}

export function toleranceOf({ continueOnError }: StageSpec): Pick<StagePlan, 'continueOnError'> {
  return continueOnError === true ? { continueOnError } : {};
}

export function whenOf(condition: Condition | null): StagePlan['when'] {
  if (condition === null) return null;
  const { source, stages, params } = condition;
  return { source, stages, params };
}
