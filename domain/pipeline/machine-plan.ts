/**
 * What the run machine holds of a plan: names, edges, scopes and limits. Programs, arguments, environment and mounts stay in
 * the run's records, so that the workflow, and each entry of its history, is small however large the work is.
 */
import { STAGE_DEFAULTS } from '../plan/defaults.ts';
import { given, less, type LeavingOut } from '../plan/leave-out.ts';
import type { EdgePlan, OutputPlan, Plan, RetryPlan, StagePlan } from '../plan/plan.ts';
import { utf8Length } from '../units/utf8.ts';
import { type Doing, doingOf, outputsReadBy } from '../plan/work.ts';

export interface MachinePlan {
  readonly name: string;
  readonly stages: readonly MachineStage[];
  readonly scopes: readonly MachineScope[];
  readonly output: OutputPlan;
  readonly maxParallel: number;
}

export interface MachineStage {
  readonly id: string;
  readonly doing: Doing;
  /** Null: no VM, and no slot of `maxParallel`. */
  readonly scope: string | null;
  readonly after: readonly EdgePlan[];
  /** The stages whose data it takes, each once. */
  readonly takes: readonly TakenData[];
  readonly timeoutMs: number;
  readonly retry: RetryPlan;
}

/** What a stage takes of an earlier one. */
export interface TakenData {
  readonly stage: string;
  readonly output: boolean;
  /** Names of its outputs. */
  readonly outputs: readonly string[];
}

export interface MachineScope {
  readonly id: string;
  readonly stages: readonly string[];
}

export function machinePlanOf({ name, stages, scopes, output, maxParallel }: Plan): MachinePlan {
  return {
    name,
    stages: stages.map((stage) => ({
      id: stage.id,
      doing: doingOf(stage.work),
      scope: stage.scope,
      after: stage.after,
      takes: takenBy(stage),
      timeoutMs: stage.timeoutMs,
      retry: stage.retry,
    })),
    scopes: scopes.map(({ id, stages: held }) => ({ id, stages: held })),
    output,
    maxParallel,
  };
}

export function takenBy({ work, input, inputs }: Pick<StagePlan, 'work' | 'input' | 'inputs'>): readonly TakenData[] {
  const taken = new Map<string, { output: boolean; readonly outputs: string[] }>();
  const of = (stage: string): { output: boolean; readonly outputs: string[] } => {
    const known = taken.get(stage) ?? { output: false, outputs: [] };
    taken.set(stage, known);
    return known;
  };
  for (const { fromStage, output } of inputs) of(fromStage).outputs.push(output);
  for (const stage of outputsReadBy(work)) of(stage).output = true;
  if (input.kind === 'carry') of(input.stage).output = true;
  if (input.kind === 'merge') for (const stage of input.stages) of(stage).output = true;
  return [...taken].map(([stage, { output, outputs }]) => ({ stage, output, outputs: [...new Set(outputs)] }));
}

/** On its way into history: what equals a default is left out, an edge on success is the stage's id. */
export interface MachinePlanWire extends Omit<MachinePlan, 'stages' | 'scopes'> {
  readonly stages: readonly MachineStageWire[];
  readonly scopes: readonly LeavingOut<MachineScope, 'stages'>[];
}

export interface MachineStageWire extends LeavingOut<
  Omit<MachineStage, 'after' | 'takes'>,
  keyof typeof DEFAULTS | 'scope'
> {
  readonly after?: readonly (EdgePlan | string)[] | undefined;
  readonly takes?: readonly LeavingOut<TakenData, 'output' | 'outputs'>[] | undefined;
}

const DEFAULTS = {
  doing: 'run',
  timeoutMs: STAGE_DEFAULTS.timeoutMs,
  retry: STAGE_DEFAULTS.retry,
} as const satisfies Partial<MachineStage>;
const TAKES_DEFAULTS = { output: true, outputs: [] } as const;

export function machineToWire({ stages, scopes, ...plan }: MachinePlan): MachinePlanWire {
  return {
    ...plan,
    stages: stages.map(({ id, scope, after, takes, ...stage }) => ({
      id,
      ...(scope === id ? {} : { scope }),
      ...(after.length === 0 ? {} : { after: after.map((edge) => (edge.on === 'success' ? edge.stage : edge)) }),
      ...(takes.length === 0 ? {} : { takes: takes.map((taken) => less(taken, TAKES_DEFAULTS)) }),
      ...less(stage, DEFAULTS),
    })),
    scopes: scopes.map(({ id, stages: held }) => ({ id, ...less({ stages: held }, { stages: [id] }) })),
  };
}

export function machineFromWire({ stages, scopes, ...plan }: MachinePlanWire): MachinePlan {
  return {
    ...plan,
    stages: stages.map(({ id, scope, after, takes, ...stage }) => ({
      id,
      scope: scope === undefined ? id : scope,
      after: (after ?? []).map((edge): EdgePlan => (typeof edge === 'string' ? { stage: edge, on: 'success' } : edge)),
      takes: (takes ?? []).map((taken) => ({ ...TAKES_DEFAULTS, ...given(taken) })),
      ...DEFAULTS,
      ...given(stage),
    })),
    scopes: scopes.map(({ id, stages: held }) => ({ id, stages: held ?? [id] })),
  };
}

/** Size of what a workflow holds of its plan: what `PLAN_LIMITS.machineBytes` bounds. */
export function machineBytes(plan: MachinePlan): number {
  return utf8Length(JSON.stringify(machineToWire(plan)));
}
