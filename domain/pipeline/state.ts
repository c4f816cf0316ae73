/**
 * Where a run stands. JSON-safe, under 1 MiB for the largest plan, and only ever made by `machine.ts`.
 * Stages and scopes stand in the order of the plan; an index into `stages` is an index into `plan.stages`.
 */
import type { DataRef } from '../plan/plan.ts';
import type { RunOutcome } from '../run/event.ts';
import type { StageFailure } from '../run/stage-result.ts';
import type { VmLease } from '../run/vm-lease.ts';
import type { Rows } from './rows.ts';

export interface RunState {
  readonly stages: Rows<StageState>;
  readonly scopes: Rows<ScopeState>;
  /** Indexes of stages that may start as soon as there is room, ascending. */
  readonly ready: readonly number[];
  /** Stages that run and take a slot of `maxParallel`. */
  readonly running: number;
  /** Stages that are not in an end state. */
  readonly open: number;
  readonly maxParallel: number;
  /** Nothing starts any more but stages with `finally`: by a cancel, or because the run gives up. */
  readonly cancelRequested: boolean;
  /** Why the run gives up; null when it does not. */
  readonly gaveUp: StageFailure | null;
  /** Every other stage has ended, and those with `finally` have their turn. */
  readonly finallyBegun: boolean;
  /** Why those with `finally` start no more; null while they may. */
  readonly finallyStop: string | null;
  readonly firstFailure: { readonly stage: string; readonly failure: StageFailure } | null;
  /** Set by the `finish` command; nothing changes after it. */
  readonly outcome: RunOutcome | null;
}

/**
/**
 * `waiting` for stages before it, `deciding` for its condition, `ready` for room or its VM, `backoff` for the author's delay,
 * `asking` for an answer, `sleeping` for a time; the others but `running` are ends. `passed`: its own condition did not hold, and
 * those that wait for its success go on.
 */
export type StagePhase = 'waiting' | 'deciding' | 'ready' | 'backoff' | 'asking' | 'sleeping' | 'running' | EndPhase;

export const END_PHASES = ['succeeded', 'failed', 'skipped', 'cancelled', 'passed'] as const;
export type EndPhase = (typeof END_PHASES)[number];

/** Why a stage was skipped. `unneeded`: it waits for a failure that did not come, or for a stage that was not needed. */
export type SkipCause = 'failure' | 'cancel' | 'unneeded';

export interface StageState {
  readonly phase: StagePhase;
  /** Number of the last exec key that was given out; 0 before the first. */
  readonly attempt: number;
  /** Attempts that the author's `retry` pays for; lost VMs are not among them. */
  readonly failures: number;
  /** Times that its condition was evaluated. */
  readonly evaluations: number;
  /** Its condition held, and is asked no more. */
  readonly decided: boolean;
  /** Edges before this stage that do not hold. */
  readonly waitingOn: number;
  /** Of the last time that it was skipped. */
  readonly skipCause: SkipCause | null;
  /** Of a loop: visits that have ended without its end. */
  readonly visits: number;
  /** Times that it was skipped: one that waits for a failure is looked at again when a lost VM makes the other run again. */
  readonly skips: number;
  /** Of the last success; of a loop that goes on, of its last visit. */
  readonly result: StageOutputs | null;
}

/** What later stages take from a finished one. */
export interface StageOutputs {
  readonly output: DataRef | null;
  readonly outputs: Readonly<Record<string, DataRef>>;
}

export const NO_OUTPUTS: StageOutputs = { output: null, outputs: {} };

/** What a stage came to in an earlier run, which stands in place of running it. */
export interface GivenStage extends StageOutputs {
  /** It was passed over: its own condition did not hold. */
  readonly passed?: true;
}

/** A part of the merge `[{"name","output"}]`. */
export interface NamedOutput {
  readonly name: string;
  readonly output: DataRef;
}

/**
 * A scope that is not shared is only ever `idle` or `releasing`: the activity of its only stage owns the VM.
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
  /** Of the shared VM that is there, until its release is answered. */
  readonly lease: VmLease | null;
  /** Why the VM has to be replaced once it is released; null when it has not. */
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

/** Whether nothing is under way but what waits for an answer or a time. */
export function isOnlyWaiting({ stages, running, ready }: Pick<RunState, 'stages' | 'running' | 'ready'>): boolean {
  if (running > 0 || ready.length > 0) return false;
  let waits = false;
  for (const row of stages)
    for (const { phase } of row) {
      // What runs without a VM takes no slot, and neither does what is being decided.
      if (phase === 'running' || phase === 'backoff' || phase === 'deciding') return false;
      if (phase === 'asking' || phase === 'sleeping') waits = true;
    }
  return waits;
}
