/**
 * What the run machine holds of a plan: names, edges, scopes and limits. Programs, arguments, environment and mounts stay in
 * the run's records, so that the workflow, and each entry of its history, is small however large the work is.
 */
import { RETRY_DEFAULTS, STAGE_DEFAULTS } from '../plan/defaults.ts';
import { omitUndefined, omitDefaults, type LeavingOut } from '../plan/leave-out.ts';
import type {
  EdgePlan,
  OnLimit,
  OutputPlan,
  Plan,
  RetryPlan,
  StagePlan,
  TimeoutAnswer,
  WaitWork,
} from '../plan/plan.ts';
import { utf8Length } from '../units/utf8.ts';
import { handsOnInput, readToDecide } from '../plan/condition.ts';
import { approvalOf, type Doing, doingOf, mockOf, outputsReadBy, partOf, waitOf } from '../plan/work.ts';

export interface MachinePlan {
  readonly name: string;
  readonly stages: readonly MachineStage[];
  readonly scopes: readonly MachineScope[];
  readonly output: OutputPlan;
  readonly maxParallel: number;
  /** Time for the whole run; absent: it has no limit. */
  readonly timeoutMs?: number | undefined;
  /** Time for its stages with `finally`. */
  readonly graceMs?: number | undefined;
}

export interface MachineStage {
  readonly id: string;
  readonly doing: Doing;
  /** Null: no VM, and no slot of `maxParallel`. */
  readonly scope: string | null;
  readonly after: readonly EdgePlan[];
  /** Of its edges on a failure, one has to hold. Absent: each. */
  readonly anyFailure?: true | undefined;
  /** The stages whose data its condition is decided with, each once; null: it has none. */
  readonly condition: readonly string[] | null;
  /** The stages whose data it takes, each once. */
  readonly takes: readonly TakenData[];
  readonly timeoutMs: number;
  readonly retry: RetryPlan;
  /** Its failure is tolerated. Absent: no. */
  readonly continueOnError?: true | undefined;
  /** It starts once every stage without this has ended. Absent: no. */
  readonly finally?: true | undefined;
  /** The stage whose output it finds as its input, where that one or itself may end without an output. Absent: none of them may. */
  readonly carries?: string | undefined;
  /** Of a tolerated stage that finds a merge: what that is made of. Who carries on from it finds the same, where it fails. */
  readonly merges?: readonly string[] | undefined;
  /** How long a question waits for its answer, and what stands for one then; null: for as long as the run goes on. */
  readonly deadline: AskDeadline | null;
  /** With `wait`. */
  readonly wait?: Pick<WaitWork, 'forMs' | 'untilMs'> | undefined;
  /** Nothing is done for it: it comes to what its author wrote. Absent: no. */
  readonly mocked?: true | undefined;
  /** It is done for each item of a list, by windows that hold slots of their own; absent: it is done once. */
  readonly each?: MachineEach | undefined;
  /** It ends the visits of a loop: its condition decides whether there is another. */
  readonly loop?: MachineLoop | undefined;
  /** The most visits in which it is done; absent: it is in no loop. */
  readonly visits?: number | undefined;
  /** The loops of whose visits before it takes the output. */
  readonly again?: readonly string[] | undefined;
}

export interface MachineLoop {
  readonly stages: readonly string[];
  /** The stage of a visit whose output the next visit finds. */
  readonly output: string;
  readonly maxVisits: number;
  readonly onLimit: OnLimit;
}

/** How the items of a stage are done. The stage itself has no VM and is not tried again: its items are. */
export interface MachineEach {
  /** Of each item's VM. */
  readonly scope: string;
  /** Of each item. */
  readonly retry: RetryPlan;
  readonly maxParallel: number;
  readonly failFast: boolean;
  readonly allowFailures: number;
}

export interface AskDeadline {
  readonly afterMs: number;
  readonly answer: TimeoutAnswer;
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

export function machinePlanOf(plan: Plan): MachinePlan {
  const { name, stages, scopes, output, maxParallel, timeoutMs, graceMs } = plan;
  const byId = new Map(stages.map((stage) => [stage.id, stage]));
  const handsOn = handsOnInput(plan);
  const ofItems = new Set(stages.flatMap(({ each, scope }) => (each === undefined ? [] : [scope])));
  return {
    name,
    stages: stages.map((stage): MachineStage => ({
      id: stage.id,
      doing: doingOf(stage.work),
      scope: stage.each === undefined ? stage.scope : null,
      after: stage.after,
      condition: decidedWith(stage, handsOn(stage.id)),
      takes: [...dataTakenBy(stage), ...takenAgain(stage)],
      timeoutMs: stage.timeoutMs,
      retry: stage.each === undefined ? stage.retry : RETRY_DEFAULTS,
      deadline: deadlineOf(stage.work),
      ...(stage.anyFailure === true ? { anyFailure: true } : {}),
      ...waitIn(stage.work),
      ...(stage.continueOnError === true ? { continueOnError: true } : {}),
      ...(stage.finally === true ? { finally: true } : {}),
      ...carriedBy(stage, (id) => byId.get(id)),
      ...(stage.continueOnError === true && stage.input.kind === 'merge' ? { merges: stage.input.stages } : {}),
      ...machineEach(stage),
      ...machineLoop(stage),
      ...(stage.visits === undefined ? {} : { visits: stage.visits }),
      ...(stage.again === undefined ? {} : { again: stage.again }),
      ...(mockOf(stage.work) === null ? {} : { mocked: true }),
    })),
    scopes: scopes.filter(({ id }) => !ofItems.has(id)).map(({ id, stages: held }) => ({ id, stages: held })),
    output,
    maxParallel,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(graceMs === undefined ? {} : { graceMs }),
  };
}

function carriedBy(stage: StagePlan, stageOf: (id: string) => StagePlan | undefined): Pick<MachineStage, 'carries'> {
  if (stage.input.kind !== 'carry') return {};
  const source = stageOf(stage.input.stage);
  const matters = mayLackOutput(stage) || (source !== undefined && mayLackOutput(source));
  return matters ? { carries: stage.input.stage } : {};
}

/** Whether those that wait for its success may start without an output of it. */
export function mayLackOutput({ continueOnError, when }: Pick<StagePlan, 'continueOnError' | 'when'>): boolean {
  return continueOnError === true || when !== null;
}

function waitIn(work: StagePlan['work']): Pick<MachineStage, 'wait'> {
  const wait = waitOf(work);
  return wait === null ? {} : { wait: { forMs: wait.forMs, untilMs: wait.untilMs } };
}

function machineEach({ each, scope, retry }: StagePlan): Pick<MachineStage, 'each'> {
  if (each === undefined || scope === null) return {};
  const { maxParallel, failFast, allowFailures } = each;
  return { each: { scope, retry, maxParallel, failFast, allowFailures } };
}

function decidedWith(stage: StagePlan, handsOn: boolean): MachineStage['condition'] {
  const { when, loop } = stage;
  if (loop !== undefined) return loop.until.stages;
  return when === null ? null : readToDecide(stage, when, handsOn);
}

function machineLoop({ loop, work }: StagePlan): Pick<MachineStage, 'loop'> {
  const part = partOf(work);
  if (loop === undefined || part === null || part.output.kind !== 'stage') return {};
  const { maxVisits, onLimit } = loop;
  return { loop: { stages: part.stages, output: part.output.stage, maxVisits, onLimit } };
}

/** In the first visit there is none. */
export function takenAgain({ again = [] }: Pick<StagePlan, 'again'>): readonly TakenData[] {
  return again.map((stage) => ({ stage, output: true, outputs: [] }));
}

function deadlineOf(work: StagePlan['work']): AskDeadline | null {
  const { timeoutMs = null, onTimeout = 'fail' } = approvalOf(work) ?? {};
  return timeoutMs === null ? null : { afterMs: timeoutMs, answer: onTimeout };
}

export function dataTakenBy({
  work,
  each,
  input,
  inputs,
  texts,
}: Pick<StagePlan, 'work' | 'each' | 'input' | 'inputs' | 'texts'>): readonly TakenData[] {
  const taken = new Map<string, { output: boolean; readonly outputs: string[] }>();
  const of = (stage: string): { output: boolean; readonly outputs: string[] } => {
    const known = taken.get(stage) ?? { output: false, outputs: [] };
    taken.set(stage, known);
    return known;
  };
  for (const { fromStage, output } of inputs) of(fromStage).outputs.push(output);
  for (const stage of outputsReadBy(work)) of(stage).output = true;
  for (const stage of texts?.stages ?? []) of(stage).output = true;
  if (each?.list.kind === 'stage-output') of(each.list.stage).output = true;
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
  deadline: null,
  condition: null,
} as const satisfies Partial<MachineStage>;
const TAKES_DEFAULTS = { output: true, outputs: [] } as const;

export function machineToWire({ stages, scopes, ...plan }: MachinePlan): MachinePlanWire {
  return {
    ...plan,
    stages: stages.map(({ id, scope, after, takes, ...stage }) => ({
      id,
      ...(scope === id ? {} : { scope }),
      ...(after.length === 0 ? {} : { after: after.map((edge) => (edge.on === 'success' ? edge.stage : edge)) }),
      ...(takes.length === 0 ? {} : { takes: takes.map((taken) => omitDefaults(taken, TAKES_DEFAULTS)) }),
      ...omitDefaults(stage, DEFAULTS),
    })),
    scopes: scopes.map(({ id, stages: held }) => ({ id, ...omitDefaults({ stages: held }, { stages: [id] }) })),
  };
}

export function machineFromWire({ stages, scopes, ...plan }: MachinePlanWire): MachinePlan {
  return {
    ...plan,
    stages: stages.map(({ id, scope, after, takes, ...stage }) => ({
      id,
      scope: scope === undefined ? id : scope,
      after: (after ?? []).map((edge): EdgePlan => (typeof edge === 'string' ? { stage: edge, on: 'success' } : edge)),
      takes: (takes ?? []).map((taken) => ({ ...TAKES_DEFAULTS, ...omitUndefined(taken) })),
      ...DEFAULTS,
      ...omitUndefined(stage),
    })),
    scopes: scopes.map(({ id, stages: held }) => ({ id, stages: held ?? [id] })),
  };
}

/** Size of what a workflow holds of its plan: what `PLAN_LIMITS.machineBytes` bounds. */
export function machineBytes(plan: MachinePlan): number {
  return utf8Length(JSON.stringify(machineToWire(plan)));
}
