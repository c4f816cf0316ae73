/** The policy of a run: the fields that a request names change the plan. */
import { AGENT_STAGE_DEFAULTS, RETRY_DEFAULTS, STAGE_DEFAULTS } from '../plan/defaults.ts';
import type { Plan, RetryPlan, StagePlan } from '../plan/plan.ts';
import { isService, needsVm } from '../plan/work.ts';

export interface RunPolicy {
  readonly max_parallel_microvms_per_run: number;
  readonly max_stage_retries: number;
  readonly stage_timeout_secs: number;
  readonly cancel_grace_period_secs: number;
}

/** Leaves out fields without a value. */
export function pickPolicy(fields: { readonly [Key in keyof RunPolicy]?: number | undefined }): Partial<RunPolicy> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** The values that answers show for fields that a request does not name. They limit no run. */
export const POLICY_DEFAULTS: RunPolicy = {
  max_parallel_microvms_per_run: 4,
  max_stage_retries: 3,
  stage_timeout_secs: 3_600,
  cancel_grace_period_secs: 30,
};

/** The largest values of a plan; a policy may name larger ones. */
const MOST = { parallel: 1_000, attempts: 100, timeoutMs: 7 * 24 * 3_600_000 } as const;
const LEAST_GRACE_MS = 1_000;

/** @returns a sentence about the first wrong field; null: the policy is valid */
export function findPolicyProblem(policy: Partial<RunPolicy>): string | null {
  if (policy.max_parallel_microvms_per_run === 0) return 'max_parallel_microvms_per_run must be >= 1';
  if (policy.stage_timeout_secs === 0) return 'stage_timeout_secs must be > 0';
  return null;
}

/**
 * Applies the fields that a request names.
 * - `max_parallel_microvms_per_run` limits the stages that run at the same time.
 * - `max_stage_retries` limits retries of the spec. A stage without retries of its own is tried again so often.
 * - `stage_timeout_secs` is the time limit of stages without one of their own.
 * - `cancel_grace_period_secs` limits the time of stages that run after a cancel (`finally`).
 */
export function applyPolicy(plan: Plan, policy: Partial<RunPolicy>): Plan {
  const { max_parallel_microvms_per_run: parallel, cancel_grace_period_secs: graceSecs } = policy;
  return {
    ...plan,
    ...(parallel === undefined ? {} : { maxParallel: Math.min(plan.maxParallel, parallel, MOST.parallel) }),
    ...(graceSecs === undefined || plan.graceMs === undefined
      ? {}
      : { graceMs: Math.max(LEAST_GRACE_MS, Math.min(plan.graceMs, graceSecs * 1_000)) }),
    stages: plan.stages.map((stage) => limitStage(stage, policy)),
  };
}

function limitStage(stage: StagePlan, policy: Partial<RunPolicy>): StagePlan {
  const { max_stage_retries: retries, stage_timeout_secs: timeoutSecs } = policy;
  if (!needsVm(stage.work) || isService(stage.work)) return stage;
  return {
    ...stage,
    ...(retries === undefined ? {} : { retry: limitRetry(stage.retry, retries) }),
    ...(timeoutSecs === undefined || hasOwnTimeout(stage)
      ? {}
      : { timeoutMs: Math.min(MOST.timeoutMs, timeoutSecs * 1_000) }),
  };
}

function limitRetry(retry: RetryPlan, retries: number): RetryPlan {
  const attempts = Math.min(MOST.attempts, retries + 1);
  const isOwn = retry.maxAttempts !== RETRY_DEFAULTS.maxAttempts;
  return { ...retry, maxAttempts: isOwn ? Math.min(retry.maxAttempts, attempts) : attempts };
}

function hasOwnTimeout({ work, timeoutMs }: StagePlan): boolean {
  return timeoutMs !== (work.kind === 'command' ? STAGE_DEFAULTS : AGENT_STAGE_DEFAULTS).timeoutMs;
}
