/**
 * The form of a plan in Temporal's history and in records. A value that equals its default is left out, so that the
 * largest plan is small; readers also accept a plan with every value. These values may be left out:
 * - those of `defaults.ts`
 * - a stage's `scope`: it is the scope that holds the stage, else a scope with the stage's id if its work needs a VM
 * - a scope's `stages`: it is the stage with the scope's id
 *
 * Two short forms exist. A stage's id instead of an edge is an edge on its success. A mount with `hostPath` has that
 * path as its source.
 */
import { countUtf8Bytes } from '../units/utf8.ts';
import {
  AGENT_DEFAULTS,
  APPROVAL_DEFAULTS,
  COMMAND_DEFAULTS,
  CONDITION_DEFAULTS,
  FIELD_DEFAULTS,
  INPUT_DEFAULTS,
  MOCK_DEFAULTS,
  SANDBOX_DEFAULTS,
  SHELL_DEFAULTS,
  STEP_MACHINE_DEFAULTS,
  STAGE_DEFAULTS,
  WAIT_DEFAULTS,
} from './defaults.ts';
import type {
  AgentWork,
  ApprovalField,
  ApprovalWork,
  CommandWork,
  ConditionPlan,
  EdgePlan,
  MockPlan,
  MockWork,
  MountPlan,
  PartWork,
  Plan,
  SandboxPlan,
  ScopePlan,
  ShellWork,
  StepMachineWork,
  StageInputPlan,
  StagePlan,
  WaitWork,
  WorkPlan,
} from './plan.ts';
import { omitUndefined, omitDefaults, type WithOptional } from './leave-out.ts';
import { needsVm } from './work.ts';

export interface PlanWire extends Omit<Plan, 'stages' | 'scopes'> {
  readonly stages: readonly StageWire[];
  readonly scopes: readonly ScopeWire[];
}

export type WorkWire =
  | CommandWire
  | ApprovalWire
  | WaitWire
  | PartWork
  | AgentWire
  | StepMachineWire
  | ShellWire
  | MockWorkWire;

export type MockWorkWire = WithOptional<MockWork, keyof typeof MOCK_DEFAULTS>;

export type MockWire = WithOptional<MockPlan, keyof typeof MOCK_DEFAULTS>;

export type AgentWire = WithOptional<AgentWork, keyof typeof AGENT_DEFAULTS>;

export type StepMachineWire = WithOptional<StepMachineWork, keyof typeof STEP_MACHINE_DEFAULTS>;

export type ShellWire = WithOptional<ShellWork, keyof typeof SHELL_DEFAULTS>;

export type WaitWire = WithOptional<WaitWork, keyof typeof WAIT_DEFAULTS>;

export type CommandWire = WithOptional<CommandWork, keyof typeof COMMAND_DEFAULTS>;

export interface ApprovalWire extends WithOptional<
  Omit<ApprovalWork, 'fields'>,
  Exclude<keyof typeof APPROVAL_DEFAULTS, 'fields'>
> {
  readonly fields?: readonly FieldWire[] | undefined;
}

export type FieldWire = WithOptional<ApprovalField, keyof typeof FIELD_DEFAULTS>;

export type InputWire = WithOptional<StageInputPlan, keyof typeof INPUT_DEFAULTS>;

export type ConditionWire = WithOptional<ConditionPlan, keyof typeof CONDITION_DEFAULTS>;

export interface StageWire extends WithOptional<
  Omit<StagePlan, 'work' | 'mock' | 'after' | 'when' | 'inputs'>,
  Exclude<keyof typeof STAGE_DEFAULTS, 'after' | 'when' | 'inputs'> | 'scope'
> {
  readonly when?: ConditionWire | null | undefined;
  readonly mock?: MockWire | undefined;
  readonly inputs?: readonly InputWire[] | undefined;
  readonly work: WorkWire;
  readonly after?: readonly (EdgePlan | string)[] | undefined;
}

export interface ScopeWire extends WithOptional<Omit<ScopePlan, 'sandbox'>, 'stages'> {
  readonly sandbox?: SandboxWire | undefined;
}

export interface SandboxWire extends WithOptional<
  Omit<SandboxPlan, 'mounts'>,
  Exclude<keyof typeof SANDBOX_DEFAULTS, 'mounts'>
> {
  readonly mounts?: readonly MountWire[] | undefined;
}

export interface MountWire extends WithOptional<MountPlan, 'source'> {
  /** A short form of `source`. */
  readonly hostPath?: string | undefined;
}

export function toWire(plan: Plan): PlanWire {
  return {
    ...plan,
    stages: plan.stages.map(({ scope, work, mock, after, when, inputs, ...stage }) => ({
      ...omitDefaults(stage, STAGE_DEFAULTS),
      ...(inputs.length === 0 ? {} : { inputs: inputs.map((input) => omitDefaults(input, INPUT_DEFAULTS)) }),
      ...(when === null ? {} : { when: omitDefaults(when, CONDITION_DEFAULTS) }),
      ...(mock === undefined ? {} : { mock: omitDefaults(mock, MOCK_DEFAULTS) }),
      ...(scope === null ? { scope } : {}),
      ...(after.length === 0 ? {} : { after: after.map((edge) => (edge.on === 'success' ? edge.stage : edge)) }),
      work: workWire(work),
    })),
    scopes: plan.scopes.map(({ id, stages, keepsVm, checkpoint, sandbox }) => ({
      id,
      ...(keepsVm === true ? { keepsVm } : {}),
      ...(checkpoint === undefined ? {} : { checkpoint }),
      ...omitDefaults({ stages, sandbox: sandboxWire(sandbox) }, { stages: [id], sandbox: {} }),
    })),
  };
}

function workWire(work: WorkPlan): WorkWire {
  switch (work.kind) {
    case 'command':
      return omitDefaults(work, COMMAND_DEFAULTS);
    case 'approval': {
      const fields = work.fields.map((field): FieldWire => omitDefaults(field, FIELD_DEFAULTS));
      return omitDefaults({ ...work, fields }, APPROVAL_DEFAULTS);
    }
    case 'wait':
      return omitDefaults(work, WAIT_DEFAULTS);
    case 'part':
      return work;
    case 'agent':
      return omitDefaults(work, AGENT_DEFAULTS);
    case 'skill':
      return omitDefaults(work, STEP_MACHINE_DEFAULTS);
    case 'shell':
      return omitDefaults(work, SHELL_DEFAULTS);
    case 'mock':
      return omitDefaults(work, MOCK_DEFAULTS);
  }
}

function sandboxWire({ mounts, ...sandbox }: SandboxPlan): SandboxWire {
  const short = mounts.map(({ source, ...mount }): MountWire =>
    source.kind === 'host' ? { hostPath: source.path, ...mount } : { source, ...mount },
  );
  return omitDefaults({ ...sandbox, mounts: short }, SANDBOX_DEFAULTS);
}

/** Does not check the plan: a stage that no scope holds gets a scope that does not exist. */
export function fromWire(wire: PlanWire): Plan {
  const scopes = wire.scopes.map(({ id, stages, keepsVm, checkpoint, sandbox }): ScopePlan => ({
    id,
    stages: stages ?? [id],
    ...(keepsVm === true ? { keepsVm } : {}),
    ...(checkpoint === undefined ? {} : { checkpoint }),
    sandbox: sandboxOf(sandbox ?? {}),
  }));
  const holders = new Map(scopes.flatMap(({ id, stages }) => stages.map((stage) => [stage, id] as const)));
  const stages = wire.stages.map((each): StagePlan => {
    const { id, scope, when, mock, inputs, work: short, after, ...stage } = each;
    const work = workOf(short);
    return {
      id,
      scope: scope !== undefined ? scope : (holders.get(id) ?? (needsVm(work) ? id : null)),
      ...STAGE_DEFAULTS,
      ...omitUndefined(stage),
      after: (after ?? []).map((edge) => (typeof edge === 'string' ? { stage: edge, on: 'success' } : edge)),
      when: when === undefined || when === null ? null : { ...CONDITION_DEFAULTS, ...omitUndefined(when) },
      inputs: (inputs ?? []).map((input) => ({ ...INPUT_DEFAULTS, ...omitUndefined(input) })),
      work,
      ...(mock === undefined ? {} : { mock: { ...MOCK_DEFAULTS, ...omitUndefined(mock) } }),
    };
  });
  return { ...wire, stages, scopes };
}

function workOf(wire: WorkWire): WorkPlan {
  switch (wire.kind) {
    case 'command':
      return { ...COMMAND_DEFAULTS, ...omitUndefined(wire) };
    case 'approval':
      return {
        ...APPROVAL_DEFAULTS,
        ...omitUndefined(wire),
        fields: (wire.fields ?? []).map((field) => ({ ...FIELD_DEFAULTS, ...omitUndefined(field) })),
      };
    case 'wait':
      return { ...WAIT_DEFAULTS, ...omitUndefined(wire) };
    case 'part':
      return wire;
    case 'agent':
      return { ...AGENT_DEFAULTS, ...omitUndefined(wire) };
    case 'skill':
      return { ...STEP_MACHINE_DEFAULTS, ...omitUndefined(wire) };
    case 'shell':
      return { ...SHELL_DEFAULTS, ...omitUndefined(wire) };
    case 'mock':
      return { ...MOCK_DEFAULTS, ...omitUndefined(wire) };
  }
}

function sandboxOf({ mounts, ...sandbox }: SandboxWire): SandboxPlan {
  return {
    ...SANDBOX_DEFAULTS,
    ...omitUndefined(sandbox),
    mounts: (mounts ?? []).map(({ hostPath, source, ...mount }) => ({
      source: source ?? { kind: 'host', path: hostPath ?? '' },
      ...mount,
    })),
  };
}

/** Returns the size of a plan on the wire, which `PLAN_LIMITS.planBytes` limits. */
export function countPlanBytes(plan: Plan): number {
  return countUtf8Bytes(JSON.stringify(toWire(plan)));
}
