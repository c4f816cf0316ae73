/**
 * Where a run stands. JSON-safe, under 1 MiB for the largest plan, and only ever made by `machine.ts`.
 * Stages and scopes stand in the order of the plan; an index into `stages` is an index into `plan.stages`.
 */
import type { DataRef } from '../plan/plan.ts';
import type { RunOutcome, StageFailure } from '../run/event.ts';

export interface RunState {
  readonly stages: readonly StageState[];
  readonly scopes: readonly ScopeState[];
  /** Indexes of stages that may start as soon as there is room, ascending. */
  readonly ready: readonly number[];
  readonly running: number;
  /** Stages that are not in an end state. */
  readonly open: number;
  readonly maxParallel: number;
  /** Nothing starts any more: by a cancel, or because the run gives up. */
  readonly cancelRequested: boolean;
  /** Why the run gives up; null when it does not. */
  readonly gaveUp: StageFailure | null;
  readonly firstFailure: { readonly stage: string; readonly failure: StageFailure } | null;
  /** Set by the `finish` command; nothing changes after it. */
  readonly outcome: RunOutcome | null;
}

/** `waiting` for stages before it, `ready` for room or its VM, `backoff` for the author's delay; the last four are ends. */
export type StagePhase = 'waiting' | 'ready' | 'backoff' | 'running' | 'succeeded' | 'failed' | 'skipped' | 'cancelled';

export interface StageState {
  readonly phase: StagePhase;
  /** Number of the last exec key that was given out; 0 before the first. */
  readonly attempt: number;
  /** Attempts that the author's `retry` pays for; lost VMs are not among them. */
  readonly failures: number;
  /** Stages before this one that have not succeeded. */
  readonly waitingOn: number;
  /** Of the last success. */
  readonly result: StageOutputs | null;
}

/** What later stages take from a finished one. */
export interface StageOutputs {
  readonly output: DataRef | null;
  readonly outputs: Readonly<Record<string, DataRef>>;
}

/** A part of the merge `[{"name","output"}]`. */
export interface NamedOutput {
  readonly name: string;
  readonly output: DataRef;
}

/**
 * A scope of one stage is only ever `idle` or `releasing`: its stage's activity owns the VM.
 * `draining`: the shared VM is lost and the stages that still run in it are waited for.
 */
export type ScopePhase = 'idle' | 'acquiring' | 'ready' | 'draining' | 'releasing';

export interface ScopeState {
  readonly phase: ScopePhase;
  /** Of the current VM, or of the next one while `idle`. A generation never has two VMs. */
  readonly generation: number;
  /** VMs lost so far, against `LOST_VM_ATTEMPTS`. */
  readonly lost: number;
  readonly running: number;
  /** Stages of the scope that are not in an end state. */
  readonly open: number;
  readonly vmKey: string | null;
  /** Why the VM has to be replaced once it is released; null when it has not. */
  readonly lossReason: string | null;
}

export function isEnd(phase: StagePhase): boolean {
  return phase === 'succeeded' || phase === 'failed' || phase === 'skipped' || phase === 'cancelled';
}
