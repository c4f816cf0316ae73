/**
 * Everything that workflows see of activities: names, arguments and results. Types only. The names of the methods are
 * contracts, because histories contain them.
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
 * The argument of the workflow type `voidboxRun`. A request sets exactly one of `spec`, `plan` and `planRef`. A retry
 * may omit all three: it then uses the plan of the run that it retries.
 */
export interface RunRequest {
  readonly spec?: string;
  readonly plan?: PlanWire;
  /** Replaces `plan` if the plan is too large for history: a reference to its JSON in the host's artifact store. */
  readonly planRef?: DataRef;
  /** The name of the plan, for people who read the history of a request without `plan`. No program reads it. */
  readonly name?: string;
  /** Values for the spec's `params`. Valid only with `spec`. */
  readonly params?: Readonly<Record<string, string>>;
  /**
   * The content of `/workspace/input.json` of the first stages. If it is absent, a run with an origin uses the input of
   * its origin.
   */
  readonly input?: InlineOrRef;
  /**
   * The earlier run, on the same host, whose outputs replace stages that need not run again. Admission decides which.
   */
  readonly origin?: RunOrigin;
  /**
   * The stages that return their `mock` instead of running; `all` means each stage that has a `mock`. If it is absent,
   * a run with an origin mocks the stages that its origin mocked.
   */
  readonly mock?: MockRequest;
  /**
   * True if the mock agent plays every agent of the plan, in the agent's VM and without a model. If it is absent, a run
   * with an origin repeats the setting of its origin.
   */
  readonly mockAgents?: boolean;
  /**
   * Proves that the host of the run started it (`domain/security/start-proof.ts`). Absent: the host keeps no permission and
   * no variable for the run.
   */
  readonly proof?: string;
}

export type InlineOrRef =
  | { readonly kind: 'inline'; readonly text: string }
  | { readonly kind: 'ref'; readonly ref: DataRef };

/** The request of the client with the fields that the workflow adds. */
export interface AdmitRequest extends RunRequest {
  readonly runId: string;
  /** The id of this execution, because several executions may have the same workflow id; a reset keeps it. */
  readonly originalExecutionRunId: string;
  /** The newest behaviour that the workflow knows. */
  readonly behaviour: number;
  /** True if the workflow's own worker has the local activity that records boots of VMs. */
  readonly recordsBoots: boolean;
  /**
   * The start of the workflow in milliseconds since the epoch. The workflow may have waited for a worker since then.
   */
  readonly startedAtMs: number;
}

/** The host and the task queues of a run. `admit` returns them, and they never change during the run. */
export interface Placement {
  /** The host that owns the run and is responsible for it until its last event. */
  readonly hostId: string;
  /** The queue for stages that own their VM, and for every activity that the next two queues do not serve. */
  readonly hostQueue: string;
  /**
   * The queue for activities that write about the run as a whole: `appendEvents` and `finishRun`. Absent: `hostQueue`.
   */
  readonly storeQueue?: string;
  /** The queue for `acquireVm`, whose result names the host of the VM. Absent: `hostQueue`. */
  readonly leaseQueue?: string;
}

export interface Admission extends Placement {
  /** The part of the plan that the run machine needs; the run's records contain the whole plan. */
  readonly machine: MachinePlanWire;
  readonly input: InlineOrRef | null;
  /** Voidbox's search attributes that are registered on the server. */
  readonly searchAttributes: readonly string[];
  /** The deployment of the delivery that started the run; absent: no delivery did. */
  readonly deployment?: string;
  /** Selects the commands that the workflow issues (`domain/run/behaviour.ts`). It never changes during a run. */
  readonly behaviour: number;
  /** True if boots of VMs are markers in the run's history. It never changes during a run. */
  readonly recordsBoots: boolean;
  /** The run that this run retries or forks; absent: neither. */
  readonly origin?: RunOrigin;
  /** The stages that do not run, by id. Set only with `origin`. */
  readonly given?: Readonly<Record<string, GivenOutputs>>;
  /**
   * The length of history at which the run gives up. The admission contains it, so that a later limit does not change
   * open runs.
   */
  readonly historyLimit: HistoryLimit;
}

/** The outputs of a stage in an earlier run. */
export interface GivenOutputs extends GivenStage {
  /** The run in which the stage ran; absent: the origin. */
  readonly ranIn?: string;
}

/**
 * The size of history at which a run gives up. Below the server's own limit it leaves room for stages that must still
 * end.
 */
export interface HistoryLimit {
  readonly events: number;
  readonly bytes: number;
}

/** The argument of `acquireVm` and `releaseVm`. */
export interface ScopeCall {
  readonly runId: string;
  readonly scope: string;
  /** The item that owns the VM; absent: the run itself. */
  readonly instance?: InstancePath;
  readonly generation: number;
  /**
   * `acquireVm`: the VM may begin with a checkpoint, because it replaces a lost VM, or because stages of its scope are
   * given. `releaseVm`: a VM follows that replaces this one. Absent: neither.
   */
  readonly resumes?: true;
}

/**
 * The argument of `runStage`: ids, and facts that only the workflow knows. The activity reads everything else from the
 * run's records.
 */
export interface StageCall {
  readonly runId: string;
  readonly stage: string;
  /** Empty for a stage of the run itself. */
  readonly instance: InstancePath;
  readonly attempt: number;
  readonly generation: number;
  readonly lease: VmLease | null;
  /** The outputs that this stage uses, by the stage that produced them. */
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  readonly events: readonly NewRunEvent[];
}

/** The argument of `askApproval`. */
export interface AskCall {
  readonly runId: string;
  readonly stage: string;
  /** The item that the stage belongs to; absent: the run itself. */
  readonly instance?: InstancePath;
  readonly attempt: number;
  /** Milliseconds since the epoch; null if there is no deadline. */
  readonly deadlineAtMs: number | null;
  /** The outputs that this stage uses, by the stage that produced them; absent: it uses no outputs. */
  readonly upstream?: Readonly<Record<string, UpstreamOutputs>>;
  readonly events: readonly NewRunEvent[];
}

/** The argument of `recordApproval`: every answer except a rejection. */
export interface ApprovalCall {
  readonly runId: string;
  readonly stage: string;
  /** The item that the stage belongs to; absent: the run itself. */
  readonly instance?: InstancePath;
  readonly attempt: number;
  /** The name that the person who answered gave; null if the person gave no name. */
  readonly by: string | null;
  readonly comment: string | null;
  /** True if no answer came before the deadline, and the deadline counts as an approval. */
  readonly timedOut: boolean;
  /** The fields as the client sent them: `recordApproval` checks them. */
  readonly fields: unknown;
  /** The time at which the workflow received the answer, in milliseconds since the epoch. */
  readonly atMs: number;
}

/** The result of `recordApproval`: the artifact with the answer. */
export interface RecordedApproval extends DataRef {
  /** A token or a link proved who sent the answer. Absent: `by` is a claim. */
  readonly verified?: true;
}

/** The result of `checkRejection`. */
export interface CheckedRejection {
  readonly fields: FieldValues;
  /** As above. */
  readonly verified?: true;
}

/** The argument of `checkRejection`: a rejection. */
export interface RejectionCall {
  readonly runId: string;
  readonly stage: string;
  /** The item that the stage belongs to; absent: the run itself. */
  readonly instance?: InstancePath;
  readonly attempt: number;
  /** As in `ApprovalCall`. Absent: a workflow of behaviour 3 sends only fields. */
  readonly by?: string | null;
  readonly comment?: string | null;
  /** The fields as the client sent them: `checkRejection` checks them. */
  readonly fields: unknown;
}

/** The argument of `evaluateCondition`. The run's records contain the condition itself. */
export interface EvaluateCall {
  readonly runId: string;
  readonly stage: string;
  /** The item that the stage belongs to; absent: the run itself. */
  readonly instance?: InstancePath;
  /** The number of the evaluation, from 1. */
  readonly evaluation: number;
  /** The outcome of each stage that the condition reads. */
  readonly upstream: Readonly<Record<string, EndedStage>>;
  readonly events: readonly NewRunEvent[];
}

export interface ConditionResult {
  readonly holds: boolean;
  /** The output that readers of the stage get instead of its own if the condition is false; null: nothing. */
  readonly output: DataRef | null;
}

/** The argument of `findTime`, for a stage that waits until a time that outputs contain. */
export interface FindTimeCall {
  readonly runId: string;
  readonly stage: string;
  /** The item that the stage belongs to; absent: the run itself. */
  readonly instance?: InstancePath;
  readonly attempt: number;
  /** The outputs that the time is built from, by the stage that produced them. */
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  readonly events: readonly NewRunEvent[];
}

export interface FoundTime {
  /** Milliseconds since the epoch, at most `PLAN_LIMITS.waitMs` from now. The time may be in the past. */
  readonly untilMs: number;
}

/** The argument of `beginItems`. */
export interface BeginItemsCall {
  readonly runId: string;
  readonly stage: string;
  /** The item that contains the list; absent: the run itself contains it. */
  readonly instance?: InstancePath | undefined;
  readonly attempt: number;
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  readonly events: readonly NewRunEvent[];
}

/** The argument of `endItems`. */
export interface EndItemsCall {
  readonly runId: string;
  readonly stage: string;
  /** The item that contains the list; absent: the run itself contains it. */
  readonly instance?: InstancePath | undefined;
  readonly attempt: number;
  /** True if the run was cancelled, so that items may be missing. */
  readonly cancelled: boolean;
}

export interface UpstreamOutputs {
  readonly output: DataRef | null;
  readonly outputs: Readonly<Record<string, DataRef>>;
}

export interface FinishRequest {
  readonly runId: string;
  readonly outcome: RunOutcome;
  /** The outputs that `finishRun` merges into the outcome's output; null: it keeps the output of `outcome`. */
  readonly merge: readonly NamedOutput[] | null;
  readonly events: readonly NewRunEvent[];
}

/**
 * Every client of the server can call these activities with any argument. `run-calls.ts` therefore checks each call
 * against the run's records. Each activity is idempotent by its keys, heartbeats until it ends, and can be cancelled.
 */
export interface Activities {
  /** The first command of each run: checks the request, stores the plan and picks the host. */
  admit(request: AdmitRequest): Promise<Admission>;
  /** Finds or creates the VM of a scope that several stages share. */
  acquireVm(call: ScopeCall): Promise<AcquiredVm>;
  /**
   * Runs one attempt of one stage, and returns only durable results. A result whose outcome is `failed` is thrown as a
   * failure: its type is the code of the outcome, its only detail the result.
   */
  runStage(call: StageCall): Promise<StageResult>;
  releaseVm(call: ScopeCall): Promise<void>;
  /** Decides whether a stage runs. @throws ApplicationFailure `stage/condition` if its condition cannot be evaluated */
  evaluateCondition(call: EvaluateCall): Promise<ConditionResult>;
  /**
   * Computes the time until which a stage waits.
   * @throws ApplicationFailure `stage/expression` if a value of its time cannot be computed, `stage/wait-time` if the
   * values form no time
   */
  findTime(call: FindTimeCall): Promise<FoundTime>;
  /**
   * Appends `stage-asking`, which shows readers the question of a stage.
   * @throws ApplicationFailure `stage/expression` if a value of its message cannot be computed
   */
  askApproval(call: AskCall): Promise<void>;
  /**
   * Stores an answer as the stage's output, and checks its proof.
   * @throws ApplicationFailure `call/refused` if the answer has a field that the approval does not define, or lacks a
   * required field; `call/not-allowed` if the approval needs a proof that the answer does not have
   */
  recordApproval(call: ApprovalCall): Promise<RecordedApproval>;
  /**
   * Checks the proof of a rejection, and returns its fields, converted to their types. No field is required.
   * @throws ApplicationFailure `call/refused` for fields that the approval does not define; `call/not-allowed`
   */
  checkRejection(call: RejectionCall): Promise<CheckedRejection>;
  /** Reads the list of a stage's items and stores it. Fails like `runStage` if there is no list. */
  beginItems(call: BeginItemsCall): Promise<{ readonly count: number }>;
  /**
   * Merges the results of the items after the last item has ended, and returns the result of the stage. Fails like
   * `runStage`.
   */
  endItems(call: EndItemsCall): Promise<StageResult>;
  /** Appends events that no stage call carries. */
  appendEvents(request: { readonly runId: string; readonly events: readonly NewRunEvent[] }): Promise<void>;
  /**
   * Makes a merged output, writes the terminal event and the manifest, and drops the variables that the client handed
   * over. Returns the outcome as it is written.
   */
  finishRun(request: FinishRequest): Promise<RunReply>;
}

/**
 * The local activities of the workflow of a run or of a window. The workflow's own worker executes them within the
 * workflow task.
 */
export interface LocalActivities {
  /**
   * Does nothing: the summary of its marker in history contains the name of the VM that booted, and the time of the
   * boot.
   */
  recordBoot(): Promise<void>;
}
