/** What people see of a run: the shapes that its events are folded into (`projection.ts`), and how each begins. */
import type { ModelUse } from '../domain/agent/budget.ts';
import type { BudgetPlan, DataRef, IsolationLevel } from '../domain/plan/plan.ts';
import type { FieldValues } from '../domain/run/approval-answer.ts';
import type { RunOrigin } from '../domain/run/origin.ts';
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
  /** Stages whose work is not done, in the order of the spec: they come to what their author wrote. */
  readonly mocked: readonly string[];
  /** Stages whose work is an agent, in the order of the spec. */
  readonly agents: readonly string[];
  /** Those that the mock agent plays, in the order of the spec. */
  readonly mockAgents: readonly string[];
  /** The work of an agent was saved at least once; absent: it was not. */
  readonly hasSaves?: true;
  /** The budget of all its agents, and what they have used of it. Absent: no budget. */
  readonly budget?: BudgetView;
  /** Events never lead to `damaged`: a reader that finds damage marks the view with `withDamage`. */
  readonly state: 'running' | RunOutcome['state'] | 'damaged';
  /** In the order of the spec; a stage that no admission named stands after them. */
  readonly stages: readonly StageView[];
  /** In the order of their first start. */
  readonly vms: readonly VmView[];
  readonly notices: readonly NoticeView[];
  /** Whose output is the result; null: merged of several; '' before the admission. */
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
  /** What of the run's files is not what was written; what else the view says was read before that. */
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
  /** The run in which it ran, when what it came to there stands for it; null when it is this run's to do. */
  readonly givenBy: string | null;
  /** The latest attempt's; '' before the first. */
  readonly execKey: string;
  /** From 1; 0 before the first start. */
  readonly attempt: number;
  readonly startedAtMs: number | null;
  readonly durationMs: number | null;
  readonly exitCode: number | null;
  readonly failure: StageFailure | null;
  /** What became of its items; null: it is done once. */
  readonly items: ItemsView | null;
  /** What it asks; null unless it waits for an answer. */
  readonly question: Question | null;
  /** The answer to what it asked; null: there is none, or it was taken back. */
  readonly answer: AnswerView | null;
  /** Until when it waits, in milliseconds since the epoch; null unless it waits for a time. */
  readonly sleepsUntilMs: number | null;
  /** Why it was skipped, is tried again, or was taken over. */
  readonly reason: string | null;
  readonly isolation: IsolationLevel | null;
  readonly vmm: string | null;
  readonly accelerator: string | null;
  /** What the latest attempt took, once it has ended, by names with their units. */
  readonly usage: Readonly<Record<string, number>>;
  /** What its agent may take in an attempt; absent: as much as it likes, or it has not begun. */
  readonly budget?: BudgetPlan;
  /** Bytes that the latest attempt printed, on both streams, before redaction. */
  readonly outputBytes: number;
  /** Of a loop that was done more than once: the latest visit, from 2. */
  readonly visit?: number;
  /** What a service has published last; absent: nothing, or it is no service. */
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
  /** The VM of the latest attempt, where that has a door; absent: none. */
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
  /** Null: no name was given, or a deadline stands for the answer. */
  readonly by: string | null;
  readonly comment: string | null;
  /** Of a rejection; those of an approval stand in `output`. Null: none were given. */
  readonly fields: FieldValues | null;
  /** Of an approval. */
  readonly output: DataRef | null;
  readonly atMs: number;
}

/** Counted, and not kept one by one: there may be thousands. */
export interface ItemsView extends ItemCounts {
  /** The first that failed, by number; at most `SHOWN_FAILURES`. */
  readonly failures: readonly ItemFailure[];
  /** Stages of items that wait for an answer, in the order in which they began to. Absent: none has asked. */
  readonly questions?: readonly ItemQuestion[] | undefined;
  /** Lists within items, by stage: those of all items around them together. Absent: none has begun. */
  readonly within?: Readonly<Record<string, ItemCounts>> | undefined;
  /** Of items, and of lists within them. Absent: none has begun. */
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
  /** Of all agents of items, those that are not shown included. */
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
   * Latest attempts of items that run or have failed, by item, of a list within an item by its instance: what a later event of
   * theirs takes back.
   */
  readonly open: Readonly<Record<string, 'running' | 'failed'>>;
}

export interface ItemFailure {
  /** From 0. */
  readonly item: number;
  readonly execKey: string;
  readonly failure: StageFailure;
}

/** Of a stage with a list; what all of them used stands in the log. */
export const SHOWN_AGENTS = 20;

/** Of a stage; all of them stand in the log. */
export const SHOWN_FAILURES = 20;

export interface VmView {
  readonly vmKey: string;
  readonly scope: string;
  readonly generation: number;
  readonly state: 'starting' | 'ready' | 'lost' | 'stopped';
  readonly isolation: IsolationLevel | null;
  readonly vmm: string | null;
  readonly accelerator: string | null;
  readonly kernel: string | null;
  readonly jail: string | null;
  readonly bootMs: number | null;
  /** Why it was lost. */
  readonly reason: string | null;
  /** What its door did; absent: nothing yet, or it has none. */
  readonly network?: NetworkView;
}

export interface NoticeView {
  readonly atMs: number;
  readonly level: 'info' | 'warning';
  readonly message: string;
}

/** A run of which nothing is known but its id. */
export function emptyView(runId: string): RunView {
  return {
    runId,
    name: '',
    kind: '',
    hostId: '',
    origin: null,
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

/** When a user started the run; null before the admission. */
export function startOfRun({ startedAtMs, workflowStartedAtMs }: RunView): number | null {
  return workflowStartedAtMs ?? startedAtMs;
}

export function withDamage(view: RunView, damage: string): RunView {
  return { ...view, state: 'damaged', damage };
}

/** A stage of which nothing is known but its name. */
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
