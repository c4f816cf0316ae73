/**
 * All that workflows see of activities: names, arguments and results. Types only.
 * Names of the methods are contracts: they stand in histories.
 */
import type { NamedOutput } from '../domain/pipeline/state.ts';
import type { DataRef, ScopePlan, StagePlan } from '../domain/plan/plan.ts';
import type { PlanWire } from '../domain/plan/wire.ts';
import type { NewRunEvent, RunOutcome, StageResult } from '../domain/run/event.ts';

/** The argument of the workflow type `voidboxRun`: a spec's text or a compiled plan, one of them. */
export interface RunRequest {
  readonly spec?: string;
  readonly plan?: PlanWire;
  /** Values for the spec's `params`. Only with `spec`. */
  readonly params?: Readonly<Record<string, string>>;
  /** What the first stages find in `/workspace/input.json`. */
  readonly input?: InlineOrRef;
}

export type InlineOrRef = { readonly kind: 'inline'; readonly text: string } | { readonly kind: 'ref'; readonly ref: DataRef };

/** What the workflow adds to what its client sent. */
export interface AdmitRequest extends RunRequest {
  readonly runId: string;
  /** Names this execution among those with the same workflow id; a reset keeps it. Workflows before behaviour 1 pass none. */
  readonly originalExecutionRunId?: string;
  /** The newest behaviour that the workflow knows; absent is 0. */
  readonly behaviour?: number;
}

export interface Admission {
  readonly plan: PlanWire;
  /** Queue of the host that this run's VMs live on. */
  readonly hostQueue: string;
  readonly hostId: string;
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
  /** Part of the exec key; 0 so far. */
  readonly item: number;
  readonly attempt: number;
  readonly generation: number;
  readonly lease: VmLease | null;
  /** Of each stage that this one takes data of, what it takes. */
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  readonly events: readonly NewRunEvent[];
}

/** What activities work with, made of a `ScopeCall`; workflows of behaviour 0 send it whole, and only its ids are believed. */
export interface ScopeRequest {
  readonly runId: string;
  readonly scope: ScopePlan;
  /** Raised by the run machine each time that the scope's VM is lost. */
  readonly generation: number;
  /** True when the scope's mounts name the paths that admission resolved. Set here, never by a caller. */
  readonly mountsAreResolved?: boolean;
}

export interface VmLease {
  readonly vmKey: string;
}

/** What `runStage` works with, made of a `StageCall`; workflows of behaviour 0 send it whole, and only its ids are believed. */
export interface StageRequest {
  readonly runId: string;
  readonly stage: StagePlan;
  readonly scope: ScopePlan;
  readonly generation: number;
  readonly mountsAreResolved?: boolean;
  /** Null: this stage's activity owns the VM (a scope of one stage). */
  readonly lease: VmLease | null;
  /** `<stage>/<item>/<attempt>`: the command's identity; the same key never runs twice. */
  readonly execKey: string;
  readonly attempt: number;
  readonly input: InlineOrRef | null;
  /** Finished stages whose outputs this one takes, by id: stdin, input, inputs. */
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  /** Events of the workflow that no activity has written yet. */
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
  acquireVm(call: ScopeCall | ScopeRequest): Promise<VmLease>;
  /** Runs one attempt of one stage and returns only what is durable. */
  runStage(call: StageCall | StageRequest): Promise<StageResult>;
  releaseVm(call: ScopeCall | ScopeRequest): Promise<void>;
  /** Appends events that no stage will carry. */
  appendEvents(request: { readonly runId: string; readonly events: readonly NewRunEvent[] }): Promise<void>;
  /** Makes a merged output, writes the terminal event and the manifest, drops handed-over variables. Returns the outcome as it is written. */
  finishRun(request: FinishRequest): Promise<RunOutcome>;
}
