/**
 * A plan on its way: through Temporal's history and into records. What equals its default is left out, so that
 * the largest plan is small; a plan with everything in it is read as well. Values that may be left out are the
 * ones of `defaults.ts`, a stage's `scope` (the scope that holds it, else one with its own id where its work needs
 * a VM) and a scope's `stages` (the stage with its id).
 *
 * Two forms are short for another: an edge that is only a stage's id is one on its success, and a mount with a
 * `hostPath` has that as its source. A stage that says `run`, `dependsOn` and `stdin` instead of `work` and `after`
 * is read for good: plans in histories and records of the first builds do, and so may other people's.
 */
import { utf8Length } from '../units/utf8.ts';
import { COMMAND_DEFAULTS, SANDBOX_DEFAULTS, STAGE_DEFAULTS } from './defaults.ts';
import type {
  CommandWork,
  EdgePlan,
  MountPlan,
  Plan,
  SandboxPlan,
  ScopePlan,
  StagePlan,
  StdinPlan,
  WorkPlan,
} from './plan.ts';
import { given, less, type LeavingOut } from './leave-out.ts';
import { needsVm } from './work.ts';

export interface PlanWire extends Omit<Plan, 'stages' | 'scopes'> {
  readonly stages: readonly StageWire[];
  readonly scopes: readonly ScopeWire[];
}

export type WorkWire = LeavingOut<CommandWork, keyof typeof COMMAND_DEFAULTS>;

/** How the first builds said a command. */
export type RunWire = Omit<WorkWire, 'kind' | 'stdin'>;

export interface StageWire extends LeavingOut<
  Omit<StagePlan, 'work' | 'after'>,
  Exclude<keyof typeof STAGE_DEFAULTS, 'after'> | 'scope'
> {
  /** This, or `run`. */
  readonly work?: WorkWire | undefined;
  readonly run?: RunWire | undefined;
  /** With `run`. */
  readonly stdin?: StdinPlan | undefined;
  /** This, or `dependsOn`: edges on success. */
  readonly after?: readonly (EdgePlan | string)[] | undefined;
  readonly dependsOn?: readonly string[] | undefined;
}

export interface ScopeWire extends LeavingOut<Omit<ScopePlan, 'sandbox'>, 'stages'> {
  readonly sandbox?: SandboxWire | undefined;
}

export interface SandboxWire extends LeavingOut<
  Omit<SandboxPlan, 'mounts'>,
  Exclude<keyof typeof SANDBOX_DEFAULTS, 'mounts'>
> {
  readonly mounts?: readonly MountWire[] | undefined;
}

export interface MountWire extends LeavingOut<MountPlan, 'source'> {
  /** In place of `source`. */
  readonly hostPath?: string | undefined;
}

export function toWire(plan: Plan): PlanWire {
  return {
    ...plan,
    stages: plan.stages.map(({ scope, work, after, ...stage }) => ({
      ...less(stage, STAGE_DEFAULTS),
      ...(scope === null ? { scope } : {}),
      ...(after.length === 0 ? {} : { after: after.map((edge) => (edge.on === 'success' ? edge.stage : edge)) }),
      work: workWire(work),
    })),
    scopes: plan.scopes.map(({ id, stages, sandbox }) => ({
      id,
      ...less({ stages, sandbox: sandboxWire(sandbox) }, { stages: [id], sandbox: {} }),
    })),
  };
}

function workWire(work: WorkPlan): WorkWire {
  switch (work.kind) {
    case 'command':
      return less(work, COMMAND_DEFAULTS);
  }
}

function sandboxWire({ mounts, ...sandbox }: SandboxPlan): SandboxWire {
  const short = mounts.map(({ source, ...mount }): MountWire =>
    source.kind === 'host' ? { hostPath: source.path, ...mount } : { source, ...mount },
  );
  return less({ ...sandbox, mounts: short }, SANDBOX_DEFAULTS);
}

/** Does not check: a stage that no scope holds comes out in a scope that does not exist. */
export function fromWire(wire: PlanWire): Plan {
  const scopes = wire.scopes.map(({ id, stages, sandbox }): ScopePlan => ({
    id,
    stages: stages ?? [id],
    sandbox: sandboxOf(sandbox ?? {}),
  }));
  const holders = new Map(scopes.flatMap(({ id, stages }) => stages.map((stage) => [stage, id] as const)));
  const stages = wire.stages.map((each): StagePlan => {
    const { id, scope, work: _work, run: _run, stdin: _stdin, after: _after, dependsOn: _dependsOn, ...stage } = each;
    const work = workOf(each);
    return {
      id,
      scope: scope !== undefined ? scope : (holders.get(id) ?? (needsVm(work) ? id : null)),
      ...STAGE_DEFAULTS,
      ...given(stage),
      after: edgesOf(each),
      work,
    };
  });
  return { ...wire, stages, scopes };
}

function workOf({ work, run, stdin }: StageWire): WorkPlan {
  // A stage with neither is refused by the check of plans from outside.
  const wire = work ?? { kind: 'command', program: '', ...given({ stdin }), ...given(run ?? {}) };
  switch (wire.kind) {
    case 'command':
      return { ...COMMAND_DEFAULTS, ...given(wire) };
  }
}

function edgesOf({ after, dependsOn }: StageWire): readonly EdgePlan[] {
  return (after ?? dependsOn ?? []).map((edge) => (typeof edge === 'string' ? { stage: edge, on: 'success' } : edge));
}

function sandboxOf({ mounts, ...sandbox }: SandboxWire): SandboxPlan {
  return {
    ...SANDBOX_DEFAULTS,
    ...given(sandbox),
    mounts: (mounts ?? []).map(({ hostPath, source, ...mount }) => ({
      source: source ?? { kind: 'host', path: hostPath ?? '' },
      ...mount,
    })),
  };
}

/** Size of a plan as it travels: what `PLAN_LIMITS.planBytes` bounds. */
export function planBytes(plan: Plan): number {
  return utf8Length(JSON.stringify(toWire(plan)));
}
