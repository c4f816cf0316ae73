/**
 * The parts of a plan that the run machine needs: names, edges, scopes and limits. Programs, arguments, environment and
 * mounts stay in the run's records. So the workflow, and each entry of its history, is small even if the work is large.
 */
import { RETRY_DEFAULTS, STAGE_DEFAULTS } from '../plan/defaults.ts';
import { omitUndefined, omitDefaults, type WithOptional } from '../plan/leave-out.ts';
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
import { countUtf8Bytes } from '../units/utf8.ts';
import { createInputPredicate, readToDecide } from '../plan/condition.ts';
import { HANDED_ON, findWorkspaceGiver } from '../plan/workspace.ts';
import {
  answeringOf,
  approvalOf,
  type WorkMode,
  doingOf,
  mockOf,
  listOutputsReadBy,
  partOf,
  waitOf,
} from '../plan/work.ts';

export interface MachinePlan {
  readonly name: string;
  readonly stages: readonly MachineStage[];
  readonly scopes: readonly MachineScope[];
  readonly output: OutputPlan;
  readonly maxParallel: number;
  /** The time limit of the whole run; absent: it has no limit. */
  readonly timeoutMs?: number | undefined;
  /** The time limit that includes all waits. */
  readonly deadlineMs?: number | undefined;
  /** The time limit of the stages with `finally`. */
  readonly graceMs?: number | undefined;
}

export interface MachineStage {
  readonly id: string;
  readonly doing: WorkMode;
  /** Null: no VM, and no slot of `maxParallel`. */
  readonly scope: string | null;
  readonly after: readonly EdgePlan[];
  /** One of its edges on a failure is enough. Absent: every edge has to hold. */
  readonly anyFailure?: true | undefined;
  /** The stages whose data its condition reads, each once; null: it has no condition. */
  readonly condition: readonly string[] | null;
  /** The stages whose data it takes, each once. */
  readonly takes: readonly TakenData[];
  readonly timeoutMs: number;
  readonly retry: RetryPlan;
  /** Its failure is tolerated. Absent: it is not. */
  readonly continueOnError?: true | undefined;
  /** It starts once every stage without `finally` has ended. Absent: it does not wait for that. */
  readonly finally?: true | undefined;
  /**
   * The stages of the part that this stage ends, if the failure of the part is tolerated as a whole. Their failures
   * fail this stage instead of the run. Once all of them have ended, it starts or fails. Absent: it ends no such part.
   */
  readonly covers?: readonly string[] | undefined;
  /**
   * The stage whose output it finds as its input, if either of the two may end without an output. Absent: neither may.
   */
  readonly carries?: string | undefined;
  /**
   * For a tolerated stage whose input is a merge: the stages of the merge. If it fails, a stage that carries on from it
   * finds the same merge.
   */
  readonly merges?: readonly string[] | undefined;
  /**
   * How long a question waits for its answer, and which answer counts after that; null: it waits as long as the run
   * lasts.
   */
  readonly deadline: AskDeadline | null;
  /** A worker checks each answer to its question. Absent: it checks only answers with fields, as behaviour 3 does. */
  readonly checksAnswers?: true | undefined;
  /** The time of a stage with `wait`. If both are null, outputs of other stages set the time. */
  readonly wait?: Pick<WaitWork, 'forMs' | 'untilMs'> | undefined;
  /** The stage does no work: it returns its `mock`. Absent: it works. */
  readonly mocked?: true | undefined;
  /** The mock agent plays its agent. Only texts for people use this. */
  readonly played?: true | undefined;
  /** How the items of the stage run: in windows with slots of their own; absent: the stage runs once. */
  readonly each?: MachineEach | undefined;
  /** The loop that this stage ends: its condition decides whether another visit follows. */
  readonly loop?: MachineLoop | undefined;
  /** The highest number of visits in which it runs; absent: it is in no loop. */
  readonly visits?: number | undefined;
  /** The loops from whose previous visit it takes the output. */
  readonly again?: readonly string[] | undefined;
}

export interface MachineLoop {
  readonly stages: readonly string[];
  /** The stage of a visit whose output the next visit finds. */
  readonly output: string;
  readonly maxVisits: number;
  readonly onLimit: OnLimit;
}

/** How the items of a stage run. The stage itself has no VM and no retry; its items have them. */
export interface MachineEach {
  /** The scope of the VM of each item's command; null: each item is a part. */
  readonly scope: string | null;
  /** The retry of each item's command. */
  readonly retry: RetryPlan;
  /**
   * The stages of an item. The last one ends the item, and has the id of the stage itself; absent: an item is a
   * command.
   */
  readonly part?: ItemPart | undefined;
  readonly maxParallel: number;
  readonly failFast: boolean;
  readonly allowFailures: number;
}

export interface ItemPart {
  readonly stages: readonly MachineStage[];
  readonly scopes: readonly MachineScope[];
  /** The highest number of stages of one item that run at the same time. */
  readonly maxParallel: number;
}

export interface AskDeadline {
  readonly afterMs: number;
  readonly answer: TimeoutAnswer;
}

/** The data that a stage takes from an earlier one. */
export interface TakenData {
  readonly stage: string;
  readonly output: boolean;
  /** Names of its outputs. */
  readonly outputs: readonly string[];
}

export interface MachineScope {
  readonly id: string;
  readonly stages: readonly string[];
  /** The same as in a `ScopePlan`. */
  readonly keepsVm?: true | undefined;
  /** The same as in a `ScopePlan`. */
  readonly checkpoint?: 'each-step' | undefined;
}

/** The stages of the run itself. The stages of an item are inside the stage with the items. */
export function machinePlanOf(plan: Plan): MachinePlan {
  const { name, output, timeoutMs, deadlineMs, graceMs, maxParallel } = plan;
  return {
    name,
    ...levelOf(plan),
    output,
    maxParallel,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(deadlineMs === undefined ? {} : { deadlineMs }),
    ...(graceMs === undefined ? {} : { graceMs }),
  };
}

function levelOf(plan: Plan): Pick<MachinePlan, 'stages' | 'scopes'> {
  const { maxParallel } = plan;
  const byId = new Map(plan.stages.map((stage) => [stage.id, stage]));
  const handsOn = createInputPredicate(plan);
  const ofItems = new Set(plan.stages.flatMap(({ each, scope }) => (each === undefined ? [] : [scope])));
  const machineStage = (stage: StagePlan): MachineStage => ({
    id: stage.id,
    doing: doingOf(stage.work),
    scope: stage.each === undefined ? stage.scope : null,
    after: stage.after,
    condition: findDecidingStages(stage, handsOn(stage.id)),
    takes: [...dataTakenBy(stage), ...listTakenAgain(stage)],
    timeoutMs: stage.timeoutMs,
    retry: stage.each === undefined ? stage.retry : RETRY_DEFAULTS,
    deadline: deadlineOf(stage.work),
    ...(approvalOf(stage.work) === null ? {} : { checksAnswers: true }),
    ...(stage.anyFailure === true ? { anyFailure: true } : {}),
    ...waitIn(stage.work),
    ...(stage.continueOnError === true ? { continueOnError: true } : {}),
    ...(stage.finally === true ? { finally: true } : {}),
    ...findCovered(stage, (id) => byId.get(id)),
    ...findCarried(stage, (id) => byId.get(id)),
    ...(stage.continueOnError === true && stage.input.kind === 'merge' ? { merges: stage.input.stages } : {}),
    ...machineEach(stage, partIn),
    ...machineLoop(stage),
    ...(stage.visits === undefined ? {} : { visits: stage.visits }),
    ...(stage.again === undefined ? {} : { again: stage.again }),
    ...(mockOf(stage.work) === null ? {} : { mocked: true }),
    ...(answeringOf(stage.work)?.played === true ? { played: true } : {}),
  });
  const stagesIn = (owner: string | null): Pick<MachinePlan, 'stages' | 'scopes'> => {
    const stages = plan.stages.filter(({ of = null }) => of === owner);
    const ids = new Set(stages.map(({ id }) => id));
    return {
      stages: stages.map((stage) => machineStage(withoutItems(stage, (id) => ids.has(id)))),
      scopes: plan.scopes
        .filter(({ id, stages: held }) => !ofItems.has(id) && held.some((stage) => ids.has(stage)))
        .map(({ id, stages: held, keepsVm, checkpoint }) => ({
          id,
          stages: held,
          ...(keepsVm === true ? { keepsVm } : {}),
          ...(checkpoint === undefined ? {} : { checkpoint }),
        })),
    };
  };
  const partIn = (id: string): ItemPart => {
    const { stages, scopes } = stagesIn(id);
    const ids = new Set(stages.map((stage) => stage.id));
    const end = endOfItem(byId.get(id)!, (stage) => ids.has(stage));
    return { stages: [...stages, machineStage(end)], scopes, maxParallel };
  };
  return stagesIn(null);
}

/** The stage as the run sees it: without edges from stages of its items. */
function withoutItems(stage: StagePlan, isBeside: (id: string) => boolean): StagePlan {
  if (stage.each === undefined || partOf(stage.work) === null) return stage;
  return { ...stage, after: stage.after.filter((edge) => isBeside(edge.stage)) };
}

/** The stage that ends each item of a part: the stage with the items, as it is within an item. */
function endOfItem(
  { each: _each, anyFailure: _any, continueOnError: _tolerated, ...end }: StagePlan,
  isWithin: (id: string) => boolean,
): StagePlan {
  return { ...end, when: null, after: end.after.filter((edge) => isWithin(edge.stage)) };
}

/**
 * The covered stages without those with `finally`, which run after the part. Stages of items within the part fail only
 * their own part.
 */
function findCovered(stage: StagePlan, stageOf: (id: string) => StagePlan | undefined): Pick<MachineStage, 'covers'> {
  const covers = listCoveredStages(stage).filter((id) => {
    const member = stageOf(id);
    return member !== undefined && member.finally !== true && member.of === stage.of;
  });
  return covers.length === 0 ? {} : { covers };
}

/** The stages of a part that runs once and whose failure is tolerated as a whole; empty for any other stage. */
export function listCoveredStages({
  work,
  each,
  loop,
  continueOnError,
}: Pick<StagePlan, 'work' | 'each' | 'loop' | 'continueOnError'>): readonly string[] {
  const isCovering = continueOnError === true && each === undefined && loop === undefined;
  return isCovering ? (partOf(work)?.stages ?? []) : [];
}

function findCarried(stage: StagePlan, stageOf: (id: string) => StagePlan | undefined): Pick<MachineStage, 'carries'> {
  if (stage.input.kind !== 'carry') return {};
  const source = stageOf(stage.input.stage);
  const matters = mayLackOutput(stage) || (source !== undefined && mayLackOutput(source));
  return matters ? { carries: stage.input.stage } : {};
}

/** Whether stages that wait for its success may start without an output of it. */
export function mayLackOutput({ continueOnError, when }: Pick<StagePlan, 'continueOnError' | 'when'>): boolean {
  return continueOnError === true || when !== null;
}

/** Whether the time of a wait is known only once it starts, because the plan sets neither a duration nor an end. */
export function isTimeFound(wait: MachineStage['wait']): boolean {
  return wait !== undefined && wait.forMs === null && wait.untilMs === null;
}

function waitIn(work: StagePlan['work']): Pick<MachineStage, 'wait'> {
  const wait = waitOf(work);
  return wait === null ? {} : { wait: { forMs: wait.forMs, untilMs: wait.untilMs } };
}

function machineEach(stage: StagePlan, partIn: (id: string) => ItemPart): Pick<MachineStage, 'each'> {
  const { each, scope, retry, work } = stage;
  if (each === undefined) return {};
  const { maxParallel, failFast, allowFailures } = each;
  const how = { maxParallel, failFast, allowFailures };
  if (partOf(work) !== null) return { each: { scope: null, retry: RETRY_DEFAULTS, part: partIn(stage.id), ...how } };
  return scope === null ? {} : { each: { scope, retry, ...how } };
}

function findDecidingStages(stage: StagePlan, handsOn: boolean): MachineStage['condition'] {
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

/** In the first visit, these outputs do not exist. */
export function listTakenAgain({ again = [] }: Pick<StagePlan, 'again'>): readonly TakenData[] {
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
  workspace,
}: Pick<StagePlan, 'work' | 'each' | 'input' | 'inputs' | 'texts' | 'workspace'>): readonly TakenData[] {
  const taken = new Map<string, { output: boolean; readonly outputs: string[] }>();
  const of = (stage: string): { output: boolean; readonly outputs: string[] } => {
    const known = taken.get(stage) ?? { output: false, outputs: [] };
    taken.set(stage, known);
    return known;
  };
  for (const { fromStage, output } of inputs) of(fromStage).outputs.push(output);
  const giver = findWorkspaceGiver({ workspace });
  if (giver !== null) of(giver).outputs.push(...HANDED_ON);
  // If the part runs for each item, the stage that ends an item takes them.
  if (each === undefined || partOf(work) === null) for (const stage of listOutputsReadBy(work)) of(stage).output = true;
  for (const stage of texts?.stages ?? []) of(stage).output = true;
  if (each?.list.kind === 'stage-output') of(each.list.stage).output = true;
  if (input.kind === 'carry') of(input.stage).output = true;
  if (input.kind === 'merge') for (const stage of input.stages) of(stage).output = true;
  return [...taken].map(([stage, { output, outputs }]) => ({ stage, output, outputs: [...new Set(outputs)] }));
}

/**
 * The plan as it is written into history: values that equal a default are left out, and an edge on success is only the
 * stage's id.
 */
export interface MachinePlanWire extends Omit<MachinePlan, 'stages' | 'scopes'>, LevelWire {}

interface LevelWire {
  readonly stages: readonly MachineStageWire[];
  readonly scopes: readonly WithOptional<MachineScope, 'stages'>[];
}

export interface MachineStageWire extends WithOptional<
  Omit<MachineStage, 'after' | 'takes' | 'each'>,
  keyof typeof DEFAULTS | 'scope'
> {
  readonly each?: MachineEachWire | undefined;
  readonly after?: readonly (EdgePlan | string)[] | undefined;
  readonly takes?: readonly WithOptional<TakenData, 'output' | 'outputs'>[] | undefined;
}

const DEFAULTS = {
  doing: 'run',
  timeoutMs: STAGE_DEFAULTS.timeoutMs,
  retry: STAGE_DEFAULTS.retry,
  deadline: null,
  condition: null,
} as const satisfies Partial<MachineStage>;
const TAKES_DEFAULTS = { output: true, outputs: [] } as const;

export interface ItemPartWire extends LevelWire, Pick<ItemPart, 'maxParallel'> {}

interface MachineEachWire extends Omit<MachineEach, 'part'> {
  readonly part?: ItemPartWire | undefined;
}

type Level = Pick<MachinePlan, 'stages' | 'scopes'>;

export function machineToWire<P extends Level>({ stages, scopes, ...plan }: P): Omit<P, keyof Level> & LevelWire {
  return {
    ...plan,
    stages: stages.map(({ id, scope, after, takes, each, ...stage }) => ({
      id,
      ...(scope === id ? {} : { scope }),
      ...(after.length === 0 ? {} : { after: after.map((edge) => (edge.on === 'success' ? edge.stage : edge)) }),
      ...(takes.length === 0 ? {} : { takes: takes.map((taken) => omitDefaults(taken, TAKES_DEFAULTS)) }),
      ...omitDefaults(stage, DEFAULTS),
      ...(each === undefined ? {} : { each: eachToWire(each) }),
    })),
    scopes: scopes.map(({ id, stages: held, keepsVm, checkpoint }) => ({
      id,
      ...omitDefaults({ stages: held }, { stages: [id] }),
      ...(keepsVm === true ? { keepsVm } : {}),
      ...(checkpoint === undefined ? {} : { checkpoint }),
    })),
  };
}

function eachToWire({ part, ...each }: MachineEach): MachineEachWire {
  return part === undefined ? each : { ...each, part: machineToWire(part) };
}

export function machineFromWire<P extends LevelWire>({ stages, scopes, ...plan }: P): Omit<P, keyof LevelWire> & Level {
  return {
    ...plan,
    stages: stages.map(({ id, scope, after, takes, each, ...stage }) => ({
      id,
      scope: scope === undefined ? id : scope,
      after: (after ?? []).map((edge): EdgePlan => (typeof edge === 'string' ? { stage: edge, on: 'success' } : edge)),
      takes: (takes ?? []).map((taken) => ({ ...TAKES_DEFAULTS, ...omitUndefined(taken) })),
      ...DEFAULTS,
      ...omitUndefined(stage),
      ...(each === undefined ? {} : { each: eachFromWire(each) }),
    })),
    scopes: scopes.map(({ id, stages: held, keepsVm, checkpoint }) => ({
      id,
      stages: held ?? [id],
      ...(keepsVm === true ? { keepsVm } : {}),
      ...(checkpoint === undefined ? {} : { checkpoint }),
    })),
  };
}

function eachFromWire({ part, ...each }: MachineEachWire): MachineEach {
  return part === undefined ? each : { ...each, part: machineFromWire(part) };
}

/** The size of the plan that a workflow holds, in bytes. `PLAN_LIMITS.machineBytes` bounds it. */
export function machineBytes(plan: MachinePlan): number {
  return countUtf8Bytes(JSON.stringify(machineToWire(plan)));
}
