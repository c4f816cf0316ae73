/**
 * What happened in a run. Events are the only thing that readers read: the command line, an API and a page
 * fold them into views and never ask a worker. Ids are given by nature, so that a second writer of the same
 * fact writes the same id and the store keeps the first; `seq` is given by the store.
 */
import type { DataRef, IsolationLevel } from '../plan/plan.ts';
import type { StageFailure, StoredStageResult } from './stage-result.ts';

/** What a writer hands to the store. */
export interface NewRunEvent {
  /** `run/<transition>`, `stage/<exec key>/<transition>`, `vm/<vm key>/<transition>` or `exec/<exec key>/<stream>/<offset>`. */
  readonly id: string;
  /** Milliseconds since the epoch by the writer's clock; for people, never for order. */
  readonly atMs: number;
  readonly body: RunEventBody;
}

export interface RunEvent extends NewRunEvent {
  /** Order in the run and the readers' cursor; from 1, without gaps. */
  readonly seq: number;
}

export type RunEventBody =
  | {
      readonly type: 'run-admitted';
      readonly name: string;
      readonly kind: string;
      readonly hostId: string;
      readonly stages: readonly { readonly id: string; readonly dependsOn: readonly string[] }[];
      /** Null: the result is merged of several. */
      readonly outputStage: string | null;
    }
  | { readonly type: 'run-resumed'; readonly by: string }
  | { readonly type: 'run-finished'; readonly outcome: RunOutcome }
  | { readonly type: 'vm-starting'; readonly vmKey: string; readonly scope: string; readonly generation: number }
  | {
      readonly type: 'vm-ready';
      readonly vmKey: string;
      readonly scope: string;
      readonly generation: number;
      /** Absent in events of the first builds. */
      readonly backend?: string;
      readonly isolation: IsolationLevel;
      readonly accelerator: string;
      readonly kernel: string;
      readonly jail: string;
      readonly bootMs: number;
    }
  | {
      readonly type: 'vm-lost';
      readonly vmKey: string;
      readonly scope: string;
      readonly generation: number;
      readonly reason: string;
    }
  | { readonly type: 'vm-stopped'; readonly vmKey: string; readonly scope: string; readonly generation: number }
  | {
      readonly type: 'scope-restarted';
      readonly scope: string;
      readonly reason: string;
      readonly stages: readonly string[];
    }
  | { readonly type: 'stage-started'; readonly stage: string; readonly execKey: string; readonly attempt: number }
  /** `reason`: how the attempt before this one ended; absent in events of earlier builds. */
  | {
      readonly type: 'stage-reattached';
      readonly stage: string;
      readonly execKey: string;
      readonly fence: number;
      readonly reason?: string;
    }
  /** A piece of a stream, after redaction. `from`/`to` are byte offsets before redaction: the writer's cursor. */
  | {
      readonly type: 'output';
      readonly stage: string;
      readonly execKey: string;
      readonly stream: 'stdout' | 'stderr';
      readonly from: number;
      readonly to: number;
      readonly encoding: 'utf8' | 'base64';
      readonly data: string;
    }
  | {
      readonly type: 'stage-finished';
      readonly stage: string;
      readonly execKey: string;
      readonly result: StoredStageResult;
    }
  | {
      readonly type: 'stage-retrying';
      readonly stage: string;
      readonly execKey: string;
      readonly reason: string;
      readonly delayMs: number;
    }
  /** The stage waits for an answer, without a VM and a slot. Written by the run's workflow, as its answer is. */
  | { readonly type: 'stage-asking'; readonly stage: string; readonly execKey: string; readonly attempt: number }
  /** The answer came, or the question was withdrawn (`cancelled`). A stage that failed so may be asking again after `stage-retrying`. */
  | {
      readonly type: 'stage-answered';
      readonly stage: string;
      readonly execKey: string;
      readonly outcome: 'succeeded' | 'failed' | 'cancelled';
      /** With `failed`. */
      readonly failure: StageFailure | null;
    }
  | { readonly type: 'stage-skipped'; readonly stage: string; readonly reason: string }
  | { readonly type: 'notice'; readonly level: 'info' | 'warning'; readonly message: string };

export interface RunOutcome {
  readonly state: 'succeeded' | 'failed' | 'cancelled' | 'terminated';
  /** First failed stage, where one is the reason. */
  readonly failedStage: string | null;
  readonly failure: StageFailure | null;
  readonly output: DataRef | null;
}
