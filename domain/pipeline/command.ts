/** What the run machine asks for. Commands are carried out in order; each but `finish`, `withdraw` and `cancel-stages` answers with one event. */
import type { DataRef } from '../plan/plan.ts';
import type { RunOutcome } from '../run/event.ts';
import type { VmLease } from '../run/vm-lease.ts';
import type { EndPhase, NamedOutput, StageOutputs } from './state.ts';

export type Command =
  /** Answer: `condition-evaluated`. It takes no VM and no slot. One that is under way at `finish` may be dropped. */
  | {
      readonly type: 'evaluate';
      readonly stageId: string;
      /** From 1: a stage whose condition read what is gone with a VM is decided again. */
      readonly evaluation: number;
      /** What the condition reads, and what the stage hands on when it is passed, by stage id. */
      readonly upstream: Readonly<Record<string, EndedStage>>;
    }
  /** Answer: `vm-acquired` or `vm-failed`. Only for scopes of several stages. */
  | { readonly type: 'acquire-vm'; readonly scope: string; readonly generation: number }
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
      /** Of the scope's VM; 0 without one. */
      readonly generation: number;
      /** Null: the stage's activity owns the VM, or there is none. */
      readonly lease: VmLease | null;
      /** Outputs of the stages that this one takes data from, by stage id. */
      readonly upstream: Readonly<Record<string, StageOutputs>>;
    }
  /** Answer: `answered`, when somebody gives one or its deadline passes. It takes no VM and no slot. */
  | {
      readonly type: 'ask';
      readonly stageId: string;
      readonly attempt: number;
      readonly upstream: Readonly<Record<string, StageOutputs>>;
    }
  /** Answer: `time-found`: until when a stage waits whose time outputs say. One that is under way at `finish` may be dropped. */
  | {
      readonly type: 'find-time';
      readonly stageId: string;
      readonly attempt: number;
      readonly upstream: Readonly<Record<string, StageOutputs>>;
    }
  /** Answer: `waited`, when the time has come. It takes no VM and no slot. A wait that still goes on at `finish` may be dropped. */
  | {
      readonly type: 'wait';
      readonly stageId: string;
      readonly execKey: string;
      readonly attempt: number;
      /** As `time-found` said it; absent: the plan says it. */
      readonly untilMs?: number;
    }
  /** The question is void: nothing answers it any more. */
  | { readonly type: 'withdraw'; readonly stageId: string; readonly attempt: number }
  /** Answer: `vm-released`. Must be carried out even when the run is cancelled. */
  | {
      readonly type: 'release-vm';
      readonly scope: string;
      readonly generation: number;
      /** Null: a stage owned the VM, or `acquire-vm` did not end well and may have left one. */
      readonly lease: VmLease | null;
    }
  /** Answer: `timer-fired`. Timers that still run at `finish` may be dropped. */
  | { readonly type: 'start-timer'; readonly id: string; readonly delayMs: number }
  /** Ask these to stop; each still answers. */
  | {
      readonly type: 'cancel-stages';
      readonly execKeys: readonly string[];
      readonly acquiring: readonly { readonly scope: string; readonly generation: number }[];
    }
  /** The last command of a run. `merge`: the outcome's output is still to be made of these; null when it is what it is. */
  | { readonly type: 'finish'; readonly outcome: RunOutcome; readonly merge: readonly NamedOutput[] | null };

/** What a condition may hear of a stage before it. */
export interface EndedStage {
  readonly state: EndPhase;
  /** Of its last attempt; 0: it had none. */
  readonly attempt: number;
  readonly output: DataRef | null;
}
