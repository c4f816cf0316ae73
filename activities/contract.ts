/**
 * All that workflows see of activities: names, arguments and results. Types only.
 * Names of the methods are contracts: they stand in histories.
 */
import type { MachinePlanWire } from '../domain/pipeline/machine-plan.ts';
import type { NamedOutput } from '../domain/pipeline/state.ts';
import type { DataRef, ScopePlan, StagePlan } from '../domain/plan/plan.ts';
import type { PlanWire } from '../domain/plan/wire.ts';
import type { InstancePath } from '../domain/run/instance.ts';
import type { NewRunEvent, RunOutcome } from '../domain/run/event.ts';
import type { StageResult } from '../domain/run/stage-result.ts';
import type { VmLease } from '../domain/run/vm-lease.ts';

/** The argument of the workflow type `voidboxRun`: a spec's text or a compiled plan, one of the three. */
export interface RunRequest {
  readonly spec?: string;
  readonly plan?: PlanWire;
  /** In place of `plan`: its JSON in the artifact store of the host, for one that is too large for history. */
  readonly planRef?: DataRef;
  /** Values for the spec's `params`. Only with `spec`. */
  readonly params?: Readonly<Record<string, string>>;
  /** What the first stages find in `/workspace/input.json`. */
  readonly input?: InlineOrRef;
}

export type InlineOrRef =
  | { readonly kind: 'inline'; readonly text: string }
  | { readonly kind: 'ref'; readonly ref: DataRef };

/** What the workflow adds to what its client sent. */
export interface AdmitRequest extends RunRequest {
  readonly runId: string;
  /** Names this execution among those with the same workflow id; a reset keeps it. Workflows before behaviour 1 pass none. */
  readonly originalExecutionRunId?: string;
  /** The newest behaviour that the workflow knows; absent is 0. */
  readonly behaviour?: number;
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
  /** Before behaviour 2. */
  readonly plan?: PlanWire;
  /** From behaviour 2: what the run machine needs of the plan, which stays in the run's records. */
  readonly machine?: MachinePlanWire;
  readonly input: InlineOrRef | null;
  /** Search attributes of ours that the server knows. */
  readonly searchAttributes: readonly string[];
  /** What the workflow does, of `domain/run/behaviour.ts`; absent is 0. It never changes during a run. */
  readonly behaviour?: number;
  /** Where the run gives up; absent: it never does. It stands here so that another limit changes no run that goes on. */
  readonly historyLimit?: HistoryLimit;
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
  readonly generation: number;
}

/** What `runStage` is told: ids, and what only the workflow knows. Everything else is read from the run's records. */
export interface StageCall {
  readonly runId: string;
  readonly stage: string;
  /** Absent, or with an `item` of 0, in calls of earlier builds: the run's own stages. */
  readonly instance?: InstancePath;
  readonly attempt: number;
  readonly generation: number;
  readonly lease: VmLease | null;
  /** Of each stage that this one takes data of, what it takes. */
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  readonly events: readonly NewRunEvent[];
}

/** As workflows of behaviour 0 send a `ScopeCall`; only its ids are believed. */
export interface WholeScopeCall {
  readonly runId: string;
  readonly scope: ScopePlan;
  readonly generation: number;
}

/** As workflows of behaviour 0 send a `StageCall`; only its ids are believed, and what only the workflow knows. */
export interface WholeStageCall {
  readonly runId: string;
  readonly stage: StagePlan;
  readonly scope: ScopePlan;
  readonly generation: number;
  readonly lease: VmLease | null;
  readonly execKey: string;
  readonly attempt: number;
  readonly input: InlineOrRef | null;
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  readonly events: readonly NewRunEvent[];
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
  acquireVm(call: ScopeCall | WholeScopeCall): Promise<VmLease>;
  /** Runs one attempt of one stage and returns only what is durable. */
  runStage(call: StageCall | WholeStageCall): Promise<StageResult>;
  releaseVm(call: ScopeCall | WholeScopeCall): Promise<void>;
  /** Appends events that no stage will carry. */
  appendEvents(request: { readonly runId: string; readonly events: readonly NewRunEvent[] }): Promise<void>;
  /** Makes a merged output, writes the terminal event and the manifest, drops handed-over variables. Returns the outcome as it is written. */
  finishRun(request: FinishRequest): Promise<RunOutcome>;
}
