/** Agent limits that a retry with `continue` sets; they override those of the plan. */
import { explainUnknownCost } from '../agent/budget.ts';
import type { AgentLimits } from '../run/origin.ts';
import type { BudgetPlan, Plan, StagePlan } from '../plan/plan.ts';

export interface StageLimits {
  readonly timeoutMs: number;
  readonly budget?: BudgetPlan | undefined;
}

/** The limits that differ from those in the plan. */
export interface ChangedLimits {
  /** New limits, by stage. */
  readonly stages: Readonly<Record<string, StageLimits>>;
  /** The time limit of the run. Absent: the limit of the plan. */
  readonly timeoutMs?: number | undefined;
  readonly budget?: BudgetPlan | undefined;
}

/** The range of each limit. */
export const LIMIT_RANGES = {
  timeoutMs: { min: 1_000, max: 7 * 24 * 3_600_000, integer: true },
  maxCostUsd: { min: 0.0001, max: 1_000_000, integer: false },
  maxTokens: { min: 1, max: 1_000_000_000_000, integer: true },
  maxTurns: { min: 1, max: 100_000, integer: true },
} as const satisfies Record<keyof AgentLimits, { min: number; max: number; integer: boolean }>;

const BUDGET_KEYS = ['maxCostUsd', 'maxTokens', 'maxTurns'] as const;

export function isLimit(name: keyof typeof LIMIT_RANGES, value: unknown): value is number {
  const { min, max, integer } = LIMIT_RANGES[name];
  return typeof value === 'number' && value >= min && value <= max && (!integer || Number.isSafeInteger(value));
}

/** Returns the limits among the fields of a value; undefined if no field is a limit. */
export function limitsIn(limits: AgentLimits): AgentLimits | undefined {
  const named = Object.keys(LIMIT_RANGES).flatMap((name) => {
    const value = limits[name as keyof AgentLimits];
    return value === undefined ? [] : [[name, value] as const];
  });
  return named.length === 0 ? undefined : Object.fromEntries(named);
}

/**
 * Returns the changes that the limits make. Limits of the run are raised too, because an agent could not use its own
 * otherwise. The run's time grows by as much as the agent's, and each limit of the run's budget grows to the agent's.
 * @param stages  with an agent each
 */
export function findChangedLimits(plan: Plan, stages: ReadonlySet<string>, limits: AgentLimits): ChangedLimits {
  const named = limitsIn(limits);
  const touched = named === undefined ? [] : plan.stages.filter(({ id }) => stages.has(id));
  if (touched.length === 0) return { stages: {} };
  const { timeoutMs } = limits;
  const more = Math.max(0, ...touched.map((stage) => (timeoutMs ?? stage.timeoutMs) - stage.timeoutMs));
  const budget = raiseBudget(plan.budget, limits);
  return {
    stages: Object.fromEntries(touched.map((stage) => [stage.id, limitsOf(stage, limits)])),
    ...(plan.timeoutMs === undefined || more === 0 ? {} : { timeoutMs: plan.timeoutMs + more }),
    ...(budget === undefined ? {} : { budget }),
  };
}

function limitsOf({ timeoutMs, work }: StagePlan, limits: AgentLimits): StageLimits {
  const given = Object.fromEntries(
    BUDGET_KEYS.flatMap((key) => (limits[key] === undefined ? [] : [[key, limits[key]]])),
  );
  const budget = { ...(work.kind === 'agent' ? work.budget : undefined), ...given };
  return {
    timeoutMs: limits.timeoutMs ?? timeoutMs,
    ...(Object.keys(budget).length === 0 ? {} : { budget }),
  };
}

/** Returns undefined if no limit is raised. */
function raiseBudget(budget: BudgetPlan | undefined, limits: AgentLimits): BudgetPlan | undefined {
  if (budget === undefined) return undefined;
  const higher = BUDGET_KEYS.flatMap((key) => {
    const [own, given] = [budget[key], limits[key]];
    return own === undefined || given === undefined || own >= given ? [] : [[key, given] as const];
  });
  return higher.length === 0 ? undefined : { ...budget, ...Object.fromEntries(higher) };
}

/** Returns the plan with these limits. It ignores stages that the plan does not have, and stages without an agent. */
export function withLimits(plan: Plan, { stages, timeoutMs, budget }: ChangedLimits): Plan {
  return {
    ...plan,
    ...(timeoutMs === undefined || plan.timeoutMs === undefined ? {} : { timeoutMs }),
    ...(budget === undefined || plan.budget === undefined ? {} : { budget }),
    stages: plan.stages.map((stage) => {
      const limits = Object.hasOwn(stages, stage.id) ? stages[stage.id] : undefined;
      if (limits === undefined || stage.work.kind !== 'agent') return stage;
      const work = limits.budget === undefined ? stage.work : { ...stage.work, budget: limits.budget };
      return { ...stage, timeoutMs: limits.timeoutMs, work };
    }),
  };
}

/** Joins two sets of limits; later limits override earlier ones. */
export function joinLimits(earlier: ChangedLimits | undefined, later: ChangedLimits): ChangedLimits | undefined {
  const joined = { ...earlier, ...later, stages: { ...earlier?.stages, ...later.stages } };
  return Object.keys(joined.stages).length === 0 ? undefined : joined;
}

/** Explains in a sentence why a stage cannot have such a cost limit; null if it can. */
export function findCostProblem(stage: StagePlan, { maxCostUsd }: AgentLimits): string | null {
  if (maxCostUsd === undefined || stage.work.kind !== 'agent') return null;
  const why = explainUnknownCost(stage.work.llm);
  return why === null ? null : `a limit of cost for stage ${stage.id} needs a price: ${why}`;
}
