/**
 * Commands of the run machine. The caller carries them out in order. Each but `finish`, `withdraw` and `cancel-stages`
 * is answered by one event.
 */
import type { DataRef } from '../plan/plan.ts';
import type { RunOutcome } from '../run/event.ts';
import type { VmLease } from '../run/vm-lease.ts';
import type { EndPhase, NamedOutput, StageOutputs } from './state.ts';

export type Command =
  /**
   * Answer: `condition-evaluated`. It takes no VM and no slot. An evaluation that is under way at `finish` may be
   * dropped.
   */
  | {
      readonly type: 'evaluate';
      readonly stageId: string;
      /** From 1. A stage is decided again if outputs that its condition read are gone with a VM. */
      readonly evaluation: number;
      /** By stage id: the ends that the condition reads, and the output that the stage hands on if it is passed. */
      readonly upstream: Readonly<Record<string, EndedStage>>;
    }
  /** Answer: `vm-acquired` or `vm-failed`. Only for scopes of several stages. */
  | {
      readonly type: 'acquire-vm';
      readonly scope: string;
      readonly generation: number;
      /**
       * The VM may begin with a checkpoint: the newest one of the lost VM that it replaces, or the one with the work of the
       * given stages.
       */
      readonly resumes?: true;
    }
  /** Answer: `stage-finished`, `stage-lost`, `stage-broken` or `stage-cancelled`. */
  | {
      readonly type: 'run-stage';
      readonly stageId: string;
      /** `<stage>/0/<attempt>`; never given out twice. */
      readonly execKey: string;
      /** From 1. */
      readonly attempt: number;
      /** Null: the work needs no VM. */
      readonly scope: string | null;
      /** The generation of the scope's VM; 0 without a VM. */
      readonly generation: number;
      /** Null: the stage's activity owns the VM, or there is no VM. */
      readonly lease: VmLease | null;
      /** Outputs of the stages that this one takes data from, by stage id. */
      readonly upstream: Readonly<Record<string, StageOutputs>>;
    }
  /** Answer: `answered`, when a person or a program answers or the deadline passes. It takes no VM and no slot. */
  | {
      readonly type: 'ask';
      readonly stageId: string;
      readonly attempt: number;
      readonly upstream: Readonly<Record<string, StageOutputs>>;
    }
  /**
   * Answer: `time-found`, the end of a wait whose time is in outputs. A search that is under way at `finish` may be
   * dropped.
   */
  | {
      readonly type: 'find-time';
      readonly stageId: string;
      readonly attempt: number;
      readonly upstream: Readonly<Record<string, StageOutputs>>;
    }
  /**
   * Answer: `waited`, when the time has come. It takes no VM and no slot. A wait that is under way at `finish` may be
   * dropped.
   */
  | {
      readonly type: 'wait';
      readonly stageId: string;
      readonly execKey: string;
      readonly attempt: number;
      /** The time from `time-found`; absent: the plan sets it. */
      readonly untilMs?: number;
    }
  /** Withdraws the question: no later answer counts. */
  | { readonly type: 'withdraw'; readonly stageId: string; readonly attempt: number }
  /** Answer: `vm-released`. Must be carried out even when the run is cancelled. */
  | {
      readonly type: 'release-vm';
      readonly scope: string;
      readonly generation: number;
      /** Null: a stage owned the VM, or `acquire-vm` failed and may have left a VM. */
      readonly lease: VmLease | null;
      /** A VM follows that may begin with a checkpoint of this one. Absent: the run starts no VM with one. */
      readonly resumes?: true;
    }
  /** Answer: `timer-fired`. Timers that still run at `finish` may be dropped. */
  | { readonly type: 'start-timer'; readonly id: string; readonly delayMs: number }
  /** Asks these to stop; each still answers with an event. */
  | {
      readonly type: 'cancel-stages';
      readonly execKeys: readonly string[];
      readonly acquiring: readonly { readonly scope: string; readonly generation: number }[];
    }
  /** The last command of a run. `merge`: the caller makes the output of these; null: the output is complete. */
  | { readonly type: 'finish'; readonly outcome: RunOutcome; readonly merge: readonly NamedOutput[] | null };

/** The end of an earlier stage, as a condition reads it. */
export interface EndedStage {
  readonly state: EndPhase;
  /** Number of its last attempt; 0: it had no attempt. */
  readonly attempt: number;
  readonly output: DataRef | null;
}
