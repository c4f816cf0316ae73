/**
 * A plan on its way: through Temporal's history and into records. What equals its default is left out, so that
 * the largest plan is small; a plan with everything in it is read as well. Values that may be left out are the
 * ones of `defaults.ts`, a stage's `scope` (the scope that holds it, else one with its own id) and a scope's
 * `stages` (the stage with its id).
 */
import { utf8Length } from '../units/utf8.ts';
import { COMMAND_DEFAULTS, SANDBOX_DEFAULTS, STAGE_DEFAULTS } from './defaults.ts';
import type { CommandPlan, Plan, SandboxPlan, ScopePlan, StagePlan } from './plan.ts';

/** `T`, of which `K` may be left out. */
type LeavingOut<T, K extends keyof T> = Omit<T, K> & { readonly [P in K]?: T[P] | undefined };

export interface PlanWire extends Omit<Plan, 'stages' | 'scopes'> {
  readonly stages: readonly StageWire[];
  readonly scopes: readonly ScopeWire[];
}

export interface StageWire extends LeavingOut<Omit<StagePlan, 'run'>, keyof typeof STAGE_DEFAULTS | 'scope'> {
  readonly run: LeavingOut<CommandPlan, keyof typeof COMMAND_DEFAULTS>;
}

export interface ScopeWire extends LeavingOut<Omit<ScopePlan, 'sandbox'>, 'stages'> {
  readonly sandbox?: LeavingOut<SandboxPlan, keyof typeof SANDBOX_DEFAULTS> | undefined;
}

export function toWire(plan: Plan): PlanWire {
  return {
    ...plan,
    stages: plan.stages.map(({ scope: _held, run, ...stage }) => ({ ...less(stage, STAGE_DEFAULTS), run: less(run, COMMAND_DEFAULTS) })),
    scopes: plan.scopes.map(({ id, stages, sandbox }) => ({
      id,
      ...less({ stages, sandbox: less(sandbox, SANDBOX_DEFAULTS) }, { stages: [id], sandbox: {} }),
    })),
  };
}

/** Does not check: a stage that no scope holds comes out in a scope that does not exist. */
export function fromWire(wire: PlanWire): Plan {
  const scopes = wire.scopes.map(({ id, stages, sandbox }): ScopePlan => ({
    id,
    stages: stages ?? [id],
    sandbox: { ...SANDBOX_DEFAULTS, ...given(sandbox ?? {}) },
  }));
  const holders = new Map(scopes.flatMap(({ id, stages }) => stages.map((stage) => [stage, id] as const)));
  const stages = wire.stages.map(({ id, scope, run, ...stage }): StagePlan => ({
    id,
    scope: scope ?? holders.get(id) ?? id,
    ...STAGE_DEFAULTS,
    ...given(stage),
    run: { ...COMMAND_DEFAULTS, ...given(run) },
  }));
  return { ...wire, stages, scopes };
}

/** Size of a plan as it travels: what `PLAN_LIMITS.planBytes` bounds. */
export function planBytes(plan: Plan): number {
  return utf8Length(JSON.stringify(toWire(plan)));
}

function less<T extends object, D extends object>(value: T, defaults: D): LeavingOut<T, keyof T & keyof D> {
  const entries = Object.entries(value).filter(([key, each]) => !(key in defaults) || JSON.stringify(each) !== JSON.stringify(defaults[key as keyof D]));
  return Object.fromEntries(entries) as LeavingOut<T, keyof T & keyof D>;
}

/** Without the keys whose value is undefined, which would hide defaults. */
function given<T extends object>(value: T): { readonly [P in keyof T]: Exclude<T[P], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as { readonly [P in keyof T]: Exclude<T[P], undefined> };
}
