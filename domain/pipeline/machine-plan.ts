/**
 * What the run machine holds of a plan: names, edges, scopes and limits. Programs, arguments, environment and mounts stay in
 * the run's records, so that the workflow, and each entry of its history, is small however large the work is.
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
import { utf8Length } from '../units/utf8.ts';
import { createInputPredicate, readToDecide } from '../plan/condition.ts';
import { HANDED_ON, workspaceGiver } from '../plan/workspace.ts';
import {
  answeringOf,
  approvalOf,
  type WorkMode,
  doingOf,
  mockOf,
  outputsReadBy,
  partOf,
  waitOf,
} from '../plan/work.ts';

export interface MachinePlan {
  readonly name: string;
  readonly stages: readonly MachineStage[];
  readonly scopes: readonly MachineScope[];
  readonly output: OutputPlan;
  readonly maxParallel: number;
  /** Time for the whole run; absent: it has no limit. */
  readonly timeoutMs?: number | undefined;
  /** The same with all waits. */
  readonly deadlineMs?: number | undefined;
  /** Time for its stages with `finally`. */
  readonly graceMs?: number | undefined;
}

export interface MachineStage {
  readonly id: string;
  readonly doing: WorkMode;
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
  /**
   * It ends a part whose failure is tolerated as a whole: the stages of that part, whose failures make this one fail and not the
   * run. Once all of them have ended, it starts or fails. Absent: it ends no such part.
   */
  readonly covers?: readonly string[] | undefined;
  /** The stage whose output it finds as its input, where that one or itself may end without an output. Absent: none of them may. */
  readonly carries?: string | undefined;
  /** Of a tolerated stage that finds a merge: what that is made of. Who carries on from it finds the same, where it fails. */
  readonly merges?: readonly string[] | undefined;
  /** How long a question waits for its answer, and what stands for one then; null: for as long as the run goes on. */
  readonly deadline: AskDeadline | null;
  /** With `wait`. Both null: outputs say until when. */
  readonly wait?: Pick<WaitWork, 'forMs' | 'untilMs'> | undefined;
  /** Nothing is done for it: it comes to what its author wrote. Absent: no. */
  readonly mocked?: true | undefined;
  /** The mock agent plays it, for people. */
  readonly played?: true | undefined;
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
  /** Of the VM of each item's command; null: each item is a part. */
  readonly scope: string | null;
  /** Of each item's command. */
  readonly retry: RetryPlan;
  /** The stages of an item, last the one that ends it, under the stage's own id; absent: a command. */
  readonly part?: ItemPart | undefined;
  readonly maxParallel: number;
  readonly failFast: boolean;
  readonly allowFailures: number;
}

export interface ItemPart {
  readonly stages: readonly MachineStage[];
  readonly scopes: readonly MachineScope[];
  /** Most stages of one item that run at the same time. */
  readonly maxParallel: number;
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
  /** As of a `ScopePlan`. */
  readonly keepsVm?: true | undefined;
}

/** Of the run itself: what belongs to an item stands within the stage whose items they are. */
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
        .map(({ id, stages: held, keepsVm }) => ({ id, stages: held, ...(keepsVm === true ? { keepsVm } : {}) })),
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

/** What a stage with items waits for and takes before the first of them. */
function withoutItems(stage: StagePlan, isBeside: (id: string) => boolean): StagePlan {
  if (stage.each === undefined || partOf(stage.work) === null) return stage;
  return { ...stage, after: stage.after.filter((edge) => isBeside(edge.stage)) };
}

/** What ends each item of a part: the stage of its items, as it is within one. */
function endOfItem(
  { each: _each, anyFailure: _any, continueOnError: _tolerated, ...end }: StagePlan,
  isWithin: (id: string) => boolean,
): StagePlan {
  return { ...end, when: null, after: end.after.filter((edge) => isWithin(edge.stage)) };
}

/** Those with `finally` run after the part, and those of items within it fail no part but their own. */
function findCovered(stage: StagePlan, stageOf: (id: string) => StagePlan | undefined): Pick<MachineStage, 'covers'> {
  const covers = listCoveredStages(stage).filter((id) => {
    const member = stageOf(id);
    return member !== undefined && member.finally !== true && member.of === stage.of;
  });
  return covers.length === 0 ? {} : { covers };
}

/** The stages of a part that is done once and whose failure is tolerated as a whole; of any other stage none. */
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

/** Whether those that wait for its success may start without an output of it. */
export function mayLackOutput({ continueOnError, when }: Pick<StagePlan, 'continueOnError' | 'when'>): boolean {
  return continueOnError === true || when !== null;
}

/** Whether the time of a wait is known only once it starts: the plan says neither how long nor until when. */
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

/** In the first visit there is none. */
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
  const giver = workspaceGiver({ workspace });
  if (giver !== null) of(giver).outputs.push(...HANDED_ON);
  // Where the part is done for each item, its end takes them, within an item.
  if (each === undefined || partOf(work) === null) for (const stage of outputsReadBy(work)) of(stage).output = true;
  for (const stage of texts?.stages ?? []) of(stage).output = true;
  if (each?.list.kind === 'stage-output') of(each.list.stage).output = true;
  if (input.kind === 'carry') of(input.stage).output = true;
  if (input.kind === 'merge') for (const stage of input.stages) of(stage).output = true;
  return [...taken].map(([stage, { output, outputs }]) => ({ stage, output, outputs: [...new Set(outputs)] }));
}

/** On its way into history: what equals a default is left out, an edge on success is the stage's id. */
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
    scopes: scopes.map(({ id, stages: held, keepsVm }) => ({
      id,
      ...omitDefaults({ stages: held }, { stages: [id] }),
      ...(keepsVm === true ? { keepsVm } : {}),
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
    scopes: scopes.map(({ id, stages: held, keepsVm }) => ({
      id,
      stages: held ?? [id],
      ...(keepsVm === true ? { keepsVm } : {}),
    })),
  };
}

function eachFromWire({ part, ...each }: MachineEachWire): MachineEach {
  return part === undefined ? each : { ...each, part: machineFromWire(part) };
}

/** Size of what a workflow holds of its plan: what `PLAN_LIMITS.machineBytes` bounds. */
export function machineBytes(plan: MachinePlan): number {
  return utf8Length(JSON.stringify(machineToWire(plan)));
}
