/**
 * Events that the run machine accepts. It ignores events about an exec key or a generation that is no longer current.
 */
import type { AnyErrorCode } from '../errors/error-code.ts';
import type { FieldValues } from '../run/approval-answer.ts';
import type { StageFailure, StageResult } from '../run/stage-result.ts';
import type { HeldAttempt, VmLease } from '../run/vm-lease.ts';
import type { DataRef } from '../plan/plan.ts';
import type { StageOutputs } from './state.ts';

export type MachineEvent =
  /** `acquire-vm` succeeded. */
  | {
      readonly type: 'vm-acquired';
      readonly scope: string;
      readonly generation: number;
      readonly lease: VmLease;
      /** The attempts whose work the VM's disk holds, from a checkpoint. Absent: it holds none. */
      readonly holds?: readonly HeldAttempt[];
    }
  /** `acquire-vm` failed or was cancelled. The machine still releases the generation. */
  | {
      readonly type: 'vm-failed';
      readonly scope: string;
      readonly generation: number;
      readonly code: AnyErrorCode;
      readonly message: string;
    }
  /** `release-vm` has ended. It follows each `release-vm`, also one that failed for good. */
  | { readonly type: 'vm-released'; readonly scope: string; readonly generation: number }
  /** `run-stage` returned a result, whatever its outcome. */
  | { readonly type: 'stage-finished'; readonly result: StageResult }
  /** `run-stage` failed because its VM is gone: `isLostVm` holds for the code. */
  | {
      readonly type: 'stage-lost';
      readonly stageId: string;
      readonly execKey: string;
      readonly code: AnyErrorCode;
      readonly message: string;
    }
  /** `run-stage` failed for good, for a reason outside of the stage. */
  | {
      readonly type: 'stage-broken';
      readonly stageId: string;
      readonly execKey: string;
      readonly code: AnyErrorCode;
      readonly message: string;
    }
  /** `run-stage` was cancelled before it had a result. */
  | { readonly type: 'stage-cancelled'; readonly stageId: string; readonly execKey: string }
  /** The answer to an `ask`. A negative answer is a failure, after which the author's `retry` may ask again. */
  | { readonly type: 'answered'; readonly stageId: string; readonly attempt: number; readonly answer: Answer }
  /** `find-time` has ended. */
  | ({ readonly type: 'time-found'; readonly stageId: string; readonly attempt: number } & FoundTime)
  /** The time of a `wait` has come. */
  | { readonly type: 'waited'; readonly stageId: string; readonly attempt: number }
  /** `evaluate` has ended. */
  | ({ readonly type: 'condition-evaluated'; readonly stageId: string; readonly evaluation: number } & ConditionOutcome)
  | { readonly type: 'timer-fired'; readonly id: string }
  | { readonly type: 'cancel-requested' }
  /** A person or a program cancels the stages with `finally` too. */
  | { readonly type: 'cancel-finally' }
  /**
   * The run cannot continue, for a reason outside of its stages. Running stages are cancelled, no other stage starts,
   * and the run fails with this failure.
   */
  | { readonly type: 'give-up'; readonly failure: StageFailure };

export type FoundTime =
  /** Milliseconds since 1970. */
  | { readonly outcome: 'found'; readonly untilMs: number }
  | { readonly outcome: 'failed'; readonly failure: StageFailure };

export type ConditionOutcome =
  | { readonly outcome: 'holds' }
  /** `output`: the output that replaces the stage's own for stages that carry it on. */
  | { readonly outcome: 'does-not-hold'; readonly output: DataRef | null }
  | { readonly outcome: 'failed'; readonly failure: StageFailure };

export type Answer = AnswerSource &
  (
    | { readonly outcome: 'succeeded'; readonly outputs: StageOutputs }
    | { readonly outcome: 'failed'; readonly failure: StageFailure; readonly fields?: FieldValues }
  );

export interface AnswerSource {
  /** Absent: a deadline answered. */
  readonly by?: string;
  /** A token or a link proved who sent the answer. Absent: `by` is a claim. */
  readonly verified?: true;
  readonly comment?: string;
  /** The time that the receipt and the output of the answer have. Absent: that of the event. */
  readonly atMs?: number;
}
