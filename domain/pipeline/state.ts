/**
 * The state of a run. JSON-safe, under 1 MiB for the largest plan; only `machine.ts` makes it.
 * Stages and scopes have the order of the plan: an index into `stages` is an index into `plan.stages`.
 */
import type { DataRef } from '../plan/plan.ts';
import type { RunOutcome } from '../run/event.ts';
import type { StageFailure } from '../run/stage-result.ts';
import type { VmLease } from '../run/vm-lease.ts';
import type { Rows } from './rows.ts';

export interface RunState {
  readonly stages: Rows<StageState>;
  readonly scopes: Rows<ScopeState>;
  /** Indexes of stages that start as soon as there is room, ascending. */
  readonly ready: readonly number[];
  /** Stages that run and take a slot of `maxParallel`. */
  readonly running: number;
  /** Stages that are not in an end state. */
  readonly open: number;
  readonly maxParallel: number;
  /** Only stages with `finally` may still start, because the run was cancelled or gives up. */
  readonly cancelRequested: boolean;
  /** Why the run gives up; null if it does not. */
  readonly gaveUp: StageFailure | null;
  /** Every other stage has ended, and stages with `finally` may start. */
  readonly finallyBegun: boolean;
  /** Why stages with `finally` may no longer start; null while they may. */
  readonly finallyStop: string | null;
  readonly firstFailure: { readonly stage: string; readonly failure: StageFailure } | null;
  /** Set by the `finish` command; nothing changes after it. */
  readonly outcome: RunOutcome | null;
}

/**
 * `waiting`: stages before it have not ended. `deciding`: its condition is being evaluated. `ready`: it waits for a
 * slot or its VM. `backoff`: it waits for the author's delay. `asking`: it waits for an answer. `sleeping`: it waits
 * for a time. All others but `running` are ends. `passed`: its own condition did not hold, and stages that wait for its
 * success start.
 */
export type StagePhase = 'waiting' | 'deciding' | 'ready' | 'backoff' | 'asking' | 'sleeping' | 'running' | EndPhase;

export const END_PHASES = ['succeeded', 'failed', 'skipped', 'cancelled', 'passed'] as const;
export type EndPhase = (typeof END_PHASES)[number];

/**
 * Why a stage was skipped. `unneeded`: it waits for a failure that did not occur, or for a stage that was not needed.
 */
export type SkipCause = 'failure' | 'cancel' | 'unneeded';

export interface StageState {
  readonly phase: StagePhase;
  /** Number of the last exec key; 0 before the first. */
  readonly attempt: number;
  /** Attempts that count against the author's `retry`; lost VMs do not count. */
  readonly failures: number;
  /** How often its condition was evaluated. */
  readonly evaluations: number;
  /** Its condition held and is not evaluated again. */
  readonly decided: boolean;
  /** Edges before this stage that do not hold. */
  readonly waitingOn: number;
  /** The cause of the last skip. */
  readonly skipCause: SkipCause | null;
  /** For a loop: visits that ended without ending the loop. */
  readonly visits: number;
  /**
   * How often it was skipped. A stage that waits for a failure may be needed after all if a lost VM makes the other
   * stage run again.
   */
  readonly skips: number;
  /** The result of the last success; for a loop that continues, the result of its last visit. */
  readonly result: StageOutputs | null;
}

/** The outputs of a finished stage that later stages take. */
export interface StageOutputs {
  readonly output: DataRef | null;
  readonly outputs: Readonly<Record<string, DataRef>>;
}

export const NO_OUTPUTS: StageOutputs = { output: null, outputs: {} };

/** The result of a stage in an earlier run. The stage does not run again. */
export interface GivenStage extends StageOutputs {
  /** The stage was passed: its own condition did not hold. */
  readonly passed?: true;
}

/** A part of the merge `[{"name","output"}]`. */
export interface NamedOutput {
  readonly name: string;
  readonly output: DataRef;
}

/**
 * A scope that is not shared is only ever `idle` or `releasing`: the activity of its only stage owns the VM.
 * `draining`: the shared VM is lost, and stages that still run in it have not ended.
 */
export type ScopePhase = 'idle' | 'acquiring' | 'ready' | 'draining' | 'releasing';

export interface ScopeState {
  readonly phase: ScopePhase;
  /** The generation of the current VM, or of the next one while `idle`. A generation never has two VMs. */
  readonly generation: number;
  /** VMs lost so far, against `LOST_VM_ATTEMPTS`. */
  readonly lost: number;
  readonly running: number;
  /** Stages of the scope that are not in an end state. */
  readonly open: number;
  /** The lease of the current shared VM, until its release was answered. */
  readonly lease: VmLease | null;
  /**
   * Why the VM is replaced after its release; null: it is not replaced. In a scope that is saved after each step it is
   * kept until the next VM answers which work it holds.
   */
  readonly lossReason: string | null;
}

export function isEnd(phase: StagePhase): phase is EndPhase {
  switch (phase) {
    case 'succeeded':
    case 'failed':
    case 'skipped':
    case 'cancelled':
    case 'passed':
      return true;
    case 'waiting':
    case 'deciding':
    case 'ready':
    case 'backoff':
    case 'asking':
    case 'sleeping':
    case 'running':
      return false;
  }
}

/** Whether the run only waits for answers and times. */
export function isOnlyWaiting({ stages, running, ready }: Pick<RunState, 'stages' | 'running' | 'ready'>): boolean {
  if (running > 0 || ready.length > 0) return false;
  let waits = false;
  for (const row of stages)
    for (const { phase } of row) {
      // `running` does not count stages without a VM, or stages that are being decided: they take no slot.
      if (phase === 'running' || phase === 'backoff' || phase === 'deciding') return false;
      if (phase === 'asking' || phase === 'sleeping') waits = true;
    }
  return waits;
}
