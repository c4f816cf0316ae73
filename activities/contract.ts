/**
 * All that workflows see of activities: names, arguments and results. Types only.
 * Names of the methods are contracts: they stand in histories.
 */
import type { MachinePlanWire } from '../domain/pipeline/machine-plan.ts';
import type { EndedStage } from '../domain/pipeline/command.ts';
import type { GivenStage, NamedOutput } from '../domain/pipeline/state.ts';
import type { DataRef } from '../domain/plan/plan.ts';
import type { MockRequest } from '../domain/plan-rules/mocks.ts';
import type { PlanWire } from '../domain/plan/wire.ts';
import type { FieldValues } from '../domain/run/approval-answer.ts';
import type { InstancePath } from '../domain/run/instance.ts';
import type { NewRunEvent, RunOutcome, RunReply } from '../domain/run/event.ts';
import type { RunOrigin } from '../domain/run/origin.ts';
import type { StageResult } from '../domain/run/stage-result.ts';
import type { AcquiredVm, VmLease } from '../domain/run/vm-lease.ts';

/**
 * The argument of the workflow type `voidboxRun`: a spec's text or a compiled plan, one of the three. A retry may leave out all
 * three: then it has the plan of the run that it retries.
 */
export interface RunRequest {
  readonly spec?: string;
  readonly plan?: PlanWire;
  /** In place of `plan`: its JSON in the artifact store of the host, for one that is too large for history. */
  readonly planRef?: DataRef;
  /** The name of the plan, for people who read a history of a request without `plan`. Nothing else reads it. */
  readonly name?: string;
  /** Values for the spec's `params`. Only with `spec`. */
  readonly params?: Readonly<Record<string, string>>;
  /** What the first stages find in `/workspace/input.json`. Absent, of a run with an origin: what they found there. */
  readonly input?: InlineOrRef;
  /** The earlier run of the same host whose outputs stand for stages that need not run again: admission decides which. */
  readonly origin?: RunOrigin;
  /**
   * Stages that come to their `mock` in place of their work; `all`: each that has one. Absent, of a run with an origin: those
   * that were mocked there.
   */
  readonly mock?: MockRequest;
  /**
   * True: the mock agent plays every agent of the plan, in its VM and without a model. Absent, of a run with an origin: as there.
   */
  readonly mockAgents?: boolean;
}

export type InlineOrRef =
  | { readonly kind: 'inline'; readonly text: string }
  | { readonly kind: 'ref'; readonly ref: DataRef };

/** What the workflow adds to what its client sent. */
export interface AdmitRequest extends RunRequest {
  readonly runId: string;
  /** Names this execution among those with the same workflow id; a reset keeps it. */
  readonly originalExecutionRunId: string;
  /** The newest behaviour that the workflow knows. */
  readonly behaviour: number;
  /** True if the workflow's own worker has the local activity that records boots of VMs. */
  readonly recordsBoots: boolean;
  /** The start of the workflow, which may have waited for a worker. */
  readonly startedAtMs: number;
}

/** Where a run is worked on: answered by `admit`, and fixed for the run's life. */
export interface Placement {
  /** The host that owns the run: it looks after the run until its last event. */
  readonly hostId: string;
  /** Takes stages that own their VM, and everything that the next two do not. */
  readonly hostQueue: string;
  /** Takes what is written about the run as a whole: `appendEvents` and `finishRun`. Absent: `hostQueue`. */
  readonly storeQueue?: string;
  /** Takes `acquireVm`, whose answer says where the VM is. Absent: `hostQueue`. */
  readonly leaseQueue?: string;
}

export interface Admission extends Placement {
  /** The part of the plan that the run machine needs; the plan stays in the run's records. */
  readonly machine: MachinePlanWire;
  readonly input: InlineOrRef | null;
  /** Voidbox's search attributes that are registered on the server. */
  readonly searchAttributes: readonly string[];
  /** Which commands the workflow makes (`domain/run/behaviour.ts`). It never changes during a run. */
  readonly behaviour: number;
  /** True if boots of VMs are markers in the run's history. It never changes during a run. */
  readonly recordsBoots: boolean;
  /** The run that this one retries or forks; absent: it starts from nothing. */
  readonly origin?: RunOrigin;
  /** With `origin`: the stages that do not run, by id. */
  readonly given?: Readonly<Record<string, GivenOutputs>>;
  /** Length of history at which the run gives up. It is part of the admission, so that a later limit does not change open runs. */
  readonly historyLimit: HistoryLimit;
}

/** What a stage came to in an earlier run. */
export interface GivenOutputs extends GivenStage {
  /** The run in which it ran; absent: the origin. */
  readonly ranIn?: string;
}

/** What a history may have before its run gives up. What still runs then has to end, within what the server allows. */
export interface HistoryLimit {
  readonly events: number;
  readonly bytes: number;
}

/** What `acquireVm` and `releaseVm` are told. */
export interface ScopeCall {
  readonly runId: string;
  readonly scope: string;
  /** Of the item whose VM it is; absent: of the run itself. */
  readonly instance?: InstancePath;
  readonly generation: number;
}

/** What `runStage` is told: ids, and what only the workflow knows. Everything else is read from the run's records. */
export interface StageCall {
  readonly runId: string;
  readonly stage: string;
  /** Empty: a stage of the run itself. */
  readonly instance: InstancePath;
  readonly attempt: number;
  readonly generation: number;
  readonly lease: VmLease | null;
  /** Of each stage that this one takes data of, what it takes. */
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  readonly events: readonly NewRunEvent[];
}

/** What `askApproval` is told. */
export interface AskCall {
  readonly runId: string;
  readonly stage: string;
  /** Of the item that the stage is done for; absent: of the run itself. */
  readonly instance?: InstancePath;
  readonly attempt: number;
  /** Milliseconds since the epoch; null: there is none. */
  readonly deadlineAtMs: number | null;
  /** Of each stage that this one takes data of, what it takes; absent: it takes none. */
  readonly upstream?: Readonly<Record<string, UpstreamOutputs>>;
  readonly events: readonly NewRunEvent[];
}

/** What `recordApproval` is told: an answer that was not no. */
export interface ApprovalCall {
  readonly runId: string;
  readonly stage: string;
  /** Of the item that the stage is done for; absent: of the run itself. */
  readonly instance?: InstancePath;
  readonly attempt: number;
  /** The name that the person who answered gave; null: none. */
  readonly by: string | null;
  readonly comment: string | null;
  /** Nobody answered: the deadline stands for a yes. */
  readonly timedOut: boolean;
  /** As they came: `recordApproval` checks them. */
  readonly fields: unknown;
  /** When the workflow heard it, in milliseconds since the epoch. */
  readonly atMs: number;
}

/** What `checkRejection` is told: an answer that was no, with fields. */
export interface RejectionCall {
  readonly runId: string;
  readonly stage: string;
  /** Of the item that the stage is done for; absent: of the run itself. */
  readonly instance?: InstancePath;
  readonly attempt: number;
  /** As they came. */
  readonly fields: unknown;
}

/** What `evaluateCondition` is told. The condition itself stands in the run's records. */
export interface EvaluateCall {
  readonly runId: string;
  readonly stage: string;
  /** Of the item that the stage is done for; absent: of the run itself. */
  readonly instance?: InstancePath;
  /** From 1. */
  readonly evaluation: number;
  /** Of each stage that the condition is decided with, what it came to. */
  readonly upstream: Readonly<Record<string, EndedStage>>;
  readonly events: readonly NewRunEvent[];
}

export interface ConditionResult {
  readonly holds: boolean;
  /** What those that carry the output of the stage on get in its place, when it does not hold; null: nothing. */
  readonly output: DataRef | null;
}

/** What `findTime` is told: until when does a stage wait whose time outputs say. */
export interface FindTimeCall {
  readonly runId: string;
  readonly stage: string;
  /** Of the item that the stage is done for; absent: of the run itself. */
  readonly instance?: InstancePath;
  readonly attempt: number;
  /** Of each stage that the time is made of, what it takes. */
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  readonly events: readonly NewRunEvent[];
}

export interface FoundTime {
  /** Milliseconds since the epoch, no more than `PLAN_LIMITS.waitMs` from now. It may have passed. */
  readonly untilMs: number;
}

/** What `beginItems` is told. */
export interface BeginItemsCall {
  readonly runId: string;
  readonly stage: string;
  /** Of the item that has the list; absent: the run itself has it. */
  readonly instance?: InstancePath | undefined;
  readonly attempt: number;
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  readonly events: readonly NewRunEvent[];
}

/** What `endItems` is told. */
export interface EndItemsCall {
  readonly runId: string;
  readonly stage: string;
  /** Of the item that has the list; absent: the run itself has it. */
  readonly instance?: InstancePath | undefined;
  readonly attempt: number;
  /** The run was cancelled: items may be missing. */
  readonly cancelled: boolean;
}

export interface UpstreamOutputs {
  readonly output: DataRef | null;
  readonly outputs: Readonly<Record<string, DataRef>>;
}

export interface FinishRequest {
  readonly runId: string;
  readonly outcome: RunOutcome;
  /** The outcome's output is to be made of these; null when it is what it is. */
  readonly merge: readonly NamedOutput[] | null;
  readonly events: readonly NewRunEvent[];
}

/**
 * Whoever reaches the server can call these with anything: `run-calls.ts` checks each call against the run's records.
 * Each is idempotent by its keys, heartbeats for its whole life and can be cancelled.
 */
export interface Activities {
  /** First command of each run: checks, stores the plan, picks the host. */
  admit(request: AdmitRequest): Promise<Admission>;
  /** Finds or creates the VM of a scope that several stages share. */
  acquireVm(call: ScopeCall): Promise<AcquiredVm>;
  /**
   * Runs one attempt of one stage and returns only what is durable. A result whose outcome is `failed` is thrown: a failure with the outcome's code as type, and the result as its only detail.
   */
  runStage(call: StageCall): Promise<StageResult>;
  releaseVm(call: ScopeCall): Promise<void>;
  /**
   * Decides whether a stage runs.
   * @throws ApplicationFailure `stage/condition` when its condition cannot be decided
   */
  evaluateCondition(call: EvaluateCall): Promise<ConditionResult>;
  /**
   * Until when a stage waits.
   * @throws ApplicationFailure `stage/expression` when a value of its time cannot be made, `stage/wait-time` when they make no time
   */
  findTime(call: FindTimeCall): Promise<FoundTime>;
  /**
   * Tells readers what a stage asks: appends `stage-asking`.
   * @throws ApplicationFailure `stage/expression` when a value of its message cannot be made
   */
  askApproval(call: AskCall): Promise<void>;
  /**
   * Keeps an answer as the stage's output.
   * @throws ApplicationFailure `call/refused` for fields that the approval does not have, or lacks
   */
  recordApproval(call: ApprovalCall): Promise<DataRef>;
  /**
   * The fields of a rejection, by their types. None is required.
   * @throws ApplicationFailure `call/refused` for fields that the approval does not have
   */
  checkRejection(call: RejectionCall): Promise<{ readonly fields: FieldValues }>;
  /** Reads the list of a stage's items and keeps it. Fails like `runStage` where there is no list. */
  beginItems(call: BeginItemsCall): Promise<{ readonly count: number }>;
  /** Once no item runs any more: merges their results, and says what the stage came to. Fails like `runStage`. */
  endItems(call: EndItemsCall): Promise<StageResult>;
  /** Appends events that no stage will carry. */
  appendEvents(request: { readonly runId: string; readonly events: readonly NewRunEvent[] }): Promise<void>;
  /** Makes a merged output, writes the terminal event and the manifest, drops handed-over variables. Returns the outcome as it is written. */
  finishRun(request: FinishRequest): Promise<RunReply>;
}

/** The local activities of the workflow of a run or of a window: its own worker executes them within the workflow task. */
export interface LocalActivities {
  /** Does nothing: the summary of its marker in history names the VM that booted, and the time of the boot. */
  recordBoot(): Promise<void>;
}
