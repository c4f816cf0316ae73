/** Time limits of one run, which override the limits of its spec or of the earlier run. */
import type { Plan } from '../../domain/plan/plan.ts';

export interface LimitOptions {
  /** Milliseconds, without the time in which the run only waits. */
  readonly timeout?: number;
  /** Milliseconds, with that time. */
  readonly deadline?: number;
}

export function limitPlan(plan: Plan, { timeout, deadline }: LimitOptions): Plan {
  return {
    ...plan,
    ...(timeout === undefined ? {} : { timeoutMs: timeout }),
    ...(deadline === undefined ? {} : { deadlineMs: deadline }),
  };
}
