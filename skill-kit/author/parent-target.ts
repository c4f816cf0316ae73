/** Replaces `__parent__` in a shared step with the target that the skill gives, in every field and form of a target. */
import { PARENT_TARGET, type StepConfig, type TransitionContext } from '../../domain/step-machine/definition.ts';

export function resolveParent(config: StepConfig, next: string): StepConfig {
  const put = (target: string): string => (target === PARENT_TARGET ? next : target);
  const { onMaxVisits, human, parallel } = config;
  return {
    ...config,
    ...(config.next === undefined ? {} : { next: mapTargets(config.next, put) }),
    ...(onMaxVisits === undefined ? {} : { onMaxVisits: put(onMaxVisits) }),
    ...(human?.onExpiry === undefined ? {} : { human: { ...human, onExpiry: put(human.onExpiry) } }),
    ...(parallel === undefined ? {} : { parallel: { branches: parallel.branches.map(put), join: put(parallel.join) } }),
  };
}

function mapTargets(
  next: NonNullable<StepConfig['next']>,
  put: (target: string) => string,
): NonNullable<StepConfig['next']> {
  if (typeof next === 'string') return put(next);
  if (typeof next === 'function') return (context: TransitionContext) => put(next(context));
  if ('terminal' in next) return next;
  return next.map((branch) => ({ ...branch, to: put(branch.to) }));
}
