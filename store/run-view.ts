/** The shapes into which `projection.ts` folds the events of a run, and their initial values. */
import type { ModelUse } from '../domain/agent/budget.ts';
import type { VmLimits, VmmChooser, VmStartKind } from '../domain/run/event.ts';
import type { BudgetPlan, DataRef, IsolationLevel } from '../domain/plan/plan.ts';
import type { FieldValues } from '../domain/run/approval-answer.ts';
import type { RunOrigin } from '../domain/run/origin.ts';
import type { RunTrigger } from '../domain/run/run-trigger.ts';
import type { Question, RunOutcome } from '../domain/run/event.ts';
import type { StageFailure, StageResult } from '../domain/run/stage-result.ts';
import type { BudgetView } from './budget-view.ts';
import type { NetworkView } from './network-view.ts';

export interface RunView {
  readonly runId: string;
  readonly name: string;
  readonly kind: string;
  readonly hostId: string;
  /** The earlier run that this one is a retry or a fork of. */
  readonly origin: RunOrigin | null;
  /** The delivery of a deployment that started the run, or the run that it repeats. */
  readonly trigger: RunTrigger | null;
  /** Stages that return their `mock` instead of running their work, in the order of the spec. */
  readonly mocked: readonly string[];
  /** Stages whose work is an agent, in the order of the spec. */
  readonly agents: readonly string[];
  /** Agents that the mock agent plays, in the order of the spec. */
  readonly mockAgents: readonly string[];
  /** The work of an agent was saved at least once; absent: it was not. */
  readonly hasSaves?: true;
  /** The budget of all its agents, and their use of it. Absent: no budget. */
  readonly budget?: BudgetView;
  /** Events never lead to `damaged`: a reader that finds damage marks the view with `withDamage`. */
  readonly state: 'running' | RunOutcome['state'] | 'damaged';
  /** In the order of the spec; stages that no admission named follow. */
  readonly stages: readonly StageView[];
  /** In the order of their first start. */
  readonly vms: readonly VmView[];
  readonly notices: readonly NoticeView[];
  /** The stage whose output is the result. Null: the result is merged from several outputs; '' before the admission. */
  readonly outputStage: string | null;
  /** Milliseconds since the epoch. */
  /** The admission. */
  readonly startedAtMs: number | null;
  /** The start of the workflow, which may have waited for the admission; absent: not known. */
  readonly workflowStartedAtMs?: number;
  readonly finishedAtMs: number | null;
  readonly outcome: RunOutcome | null;
  /** Cursor of the last event that was folded in. */
  readonly seq: number;
  /** The damage of the run's files. The rest of the view was read before the damage. */
  readonly damage: string | null;
}

export type StageState =
  | 'waiting'
  | 'running'
  /** It waits for an answer. */
  | 'asking'
  /** It waits for a time. */
  | 'sleeping'
  | 'retrying'
  | 'succeeded'
  | 'failed'
  | 'cancelled'
  | 'skipped'
  | 'passed';

export interface StageView {
  readonly id: string;
  readonly dependsOn: readonly string[];
  readonly state: StageState;
  /** The earlier run whose result replaces the work of this stage; null: this run does the work. */
  readonly givenBy: string | null;
  /** The latest attempt's; '' before the first. */
  readonly execKey: string;
  /** From 1; 0 before the first start. */
  readonly attempt: number;
  readonly startedAtMs: number | null;
  readonly durationMs: number | null;
  readonly exitCode: number | null;
  readonly failure: StageFailure | null;
  /** The counts of its items; null: the stage has no list. */
  readonly items: ItemsView | null;
  /** The open question; null: the stage does not wait for an answer. */
  readonly question: Question | null;
  /** The answer to its question; null: no answer yet, or the answer was taken back. */
  readonly answer: AnswerView | null;
  /** Until when it waits, in milliseconds since the epoch; null unless it waits for a time. */
  readonly sleepsUntilMs: number | null;
  /** Why it was skipped, is tried again, or was taken over. */
  readonly reason: string | null;
  readonly isolation: IsolationLevel | null;
  readonly vmm: string | null;
  readonly accelerator: string | null;
  /** The use of the latest attempt once it has ended, by names with their units. */
  readonly usage: Readonly<Record<string, number>>;
  /** The budget of its agent for an attempt. Absent: no limit, or the attempt has not begun. */
  readonly budget?: BudgetPlan;
  /** Bytes that the latest attempt printed, on both streams, before redaction. */
  readonly outputBytes: number;
  /** The latest visit of a loop that ran more than once, from 2. */
  readonly visit?: number;
  /** The last publication of a service. Absent: no publication, or the stage is not a service. */
  readonly published?: { readonly output: DataRef; readonly atMs: number };
  /**
   * The outputs of the last failed or interrupted attempt that has any, by name. Absent: there are no such outputs, or a later
   * attempt has succeeded.
   */
  readonly partial?: Readonly<Record<string, DataRef>>;
  /** The save that the latest attempt continues from; absent: it began from its beginning. */
  readonly resumed?: ResumedView;
  /** How often another worker took the command over. */
  readonly reattached: number;
  /** The VM of the latest attempt if that VM has a door, else absent. */
  readonly vmKey?: string;
}

export interface ResumedView {
  /** The run that it was saved in. */
  readonly runId: string;
  /** The attempt that it was saved in. */
  readonly from: string;
  readonly savedAtMs: number;
}

export interface AnswerView {
  readonly decision: 'approve' | 'reject';
  /** Null: no name was given, or a deadline answered. */
  readonly by: string | null;
  /** Whether a token or a link proved who sent the answer; else `by` is a claim. */
  readonly verified: boolean;
  readonly comment: string | null;
  /** The fields of a rejection; the `output` of an approval contains its fields. Null: no fields were given. */
  readonly fields: FieldValues | null;
  /** The artifact of an approval. */
  readonly output: DataRef | null;
  readonly atMs: number;
}

/** Counted, and not kept one by one: there may be thousands. */
export interface ItemsView extends ItemCounts {
  /** The first that failed, by number; at most `SHOWN_FAILURES`. */
  readonly failures: readonly ItemFailure[];
  /** Stages of items that wait for an answer, in the order in which they began to. Absent: none has asked. */
  readonly questions?: readonly ItemQuestion[] | undefined;
  /** Counts of lists within items, by stage, each over all items around it. Absent: no such list has begun. */
  readonly within?: Readonly<Record<string, ItemCounts>> | undefined;
  /** Agents of items and of lists within them. Absent: no agent has begun. */
  readonly agents?: ItemAgentsView | undefined;
}

export interface ItemAgent {
  /** For people: `review[3].work`. */
  readonly name: string;
  /** The latest attempt's. */
  readonly execKey: string;
  /** From 1. */
  readonly attempt: number;
  readonly state: 'running' | StageResult['outcome'];
  /** Absent: as much as it likes. */
  readonly budget?: BudgetPlan;
  readonly used: ModelUse;
}

export interface ItemAgentsView {
  /** Attempts of all agents of items, including the agents that are not shown. */
  readonly attempts: number;
  /** By instance and stage. */
  readonly working: Readonly<Record<string, ItemAgent>>;
  /** At most `SHOWN_AGENTS`. */
  readonly ended: readonly ItemAgent[];
}

export interface ItemQuestion {
  /** For people, and for an answer: `review[3].ok`. */
  readonly name: string;
  readonly execKey: string;
  readonly question: Question;
}

export interface ItemCounts {
  readonly total: number;
  readonly running: number;
  readonly succeeded: number;
  readonly failed: number;
  /**
   * Latest attempts of items that run or have failed, by item; for a list within an item, by instance. A later event of
   * an item takes its entry back.
   */
  readonly open: Readonly<Record<string, 'running' | 'failed'>>;
}

export interface ItemFailure {
  /** From 0. */
  readonly item: number;
  readonly execKey: string;
  readonly failure: StageFailure;
}

/** The limit of agents in the view of a stage with a list; the log contains the use of all agents. */
export const SHOWN_AGENTS = 20;

/** The limit of failures in the view of a stage; the log contains all failures. */
export const SHOWN_FAILURES = 20;

export interface VmView {
  readonly vmKey: string;
  readonly scope: string;
  readonly generation: number;
  readonly state: 'starting' | 'ready' | 'lost' | 'stopped';
  readonly isolation: IsolationLevel | null;
  readonly vmm: string | null;
  /** Whether the spec names the VMM, or `auto` has selected it. Absent: not known. */
  readonly chosenBy?: VmmChooser;
  readonly accelerator: string | null;
  readonly kernel: string | null;
  readonly jail: string | null;
  /** Absent: not known. */
  readonly limits?: VmLimits;
  readonly bootMs: number | null;
  /** How it began; null until it is ready. */
  readonly start: VmStartKind | null;
  /** The key of the snapshot from which it began; null: it booted. */
  readonly snapshot: string | null;
  /** Whether it waited in the pool of a worker. Absent: it did not. */
  readonly pooled?: boolean;
  /** The step after which the checkpoint was made with which its disk began. Absent: its disk was empty. */
  readonly resumedAfter?: string;
  /** Why it was lost. */
  readonly reason: string | null;
  /** The activity of its door. Absent: no activity yet, or the VM has no door. */
  readonly network?: NetworkView;
}

export interface NoticeView {
  readonly atMs: number;
  readonly level: 'info' | 'warning';
  readonly message: string;
}

/** Returns the view of a run of which only the id is known. */
export function emptyView(runId: string): RunView {
  return {
    runId,
    name: '',
    kind: '',
    hostId: '',
    origin: null,
    trigger: null,
    mocked: [],
    agents: [],
    mockAgents: [],
    state: 'running',
    stages: [],
    vms: [],
    notices: [],
    outputStage: '',
    startedAtMs: null,
    finishedAtMs: null,
    outcome: null,
    seq: 0,
    damage: null,
  };
}

/** Returns the time at which a user started the run; null before the admission. */
export function startOfRun({ startedAtMs, workflowStartedAtMs }: RunView): number | null {
  return workflowStartedAtMs ?? startedAtMs;
}

export function withDamage(view: RunView, damage: string): RunView {
  return { ...view, state: 'damaged', damage };
}

/** Returns the view of a stage of which only the name is known. */
export function newStage(id: string): StageView {
  return {
    id,
    dependsOn: [],
    state: 'waiting',
    givenBy: null,
    execKey: '',
    attempt: 0,
    startedAtMs: null,
    durationMs: null,
    exitCode: null,
    failure: null,
    items: null,
    question: null,
    answer: null,
    sleepsUntilMs: null,
    reason: null,
    isolation: null,
    vmm: null,
    accelerator: null,
    usage: {},
    outputBytes: 0,
    reattached: 0,
  };
}
