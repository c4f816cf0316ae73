/**
 * The events of a run. Readers read only events: the command line, an API and a page fold them into views and never ask a worker.
 * The id of an event follows from the fact, so a second writer of the same fact writes the same id and the store keeps the first.
 * The store assigns `seq`.
 */
import type { ApprovalField, BudgetPlan, DataRef, IsolationLevel, TimeoutAnswer } from '../plan/plan.ts';
import type { FieldValues } from './approval-answer.ts';
import type { DoorNotice } from './door-notice.ts';
import type { RunOrigin } from './origin.ts';
import type { RunTrigger } from './run-trigger.ts';
import type { StageFailure, StageResult } from './stage-result.ts';

/** A folder of a guest, as a tar. */
export interface SavedFolder {
  readonly guestPath: string;
  readonly ref: DataRef;
  /** Present if the tar of a git workspace leaves out the files of the checkout; absent: the tar has the whole folder. */
  readonly changes?: SavedChanges;
}

export interface SavedChanges {
  /** Names of files of the checkout that were deleted, each followed by a NUL; absent: no such files. */
  readonly removed?: DataRef;
  /** Files and folders that were not saved, the first of them. */
  readonly leftOut: readonly string[];
  readonly leftOutCount: number;
  /** Number of changed and new files in the save, as the guest named them. */
  readonly fileCount: number;
  /** Number of files of the checkout that were deleted. */
  readonly removedCount: number;
}

/** An event that a writer passes to the store. */
export interface NewRunEvent {
  /** One of `EVENT_ID`. */
  readonly id: string;
  /** Milliseconds since the epoch by the writer's clock; for people, never for order. */
  readonly atMs: number;
  readonly body: RunEventBody;
}

export interface RunEvent extends NewRunEvent {
  /** Order in the run and the readers' cursor; from 1, without gaps. */
  readonly seq: number;
}

/** `snapshot`: the VM began as a copy of a guest that had booted. */
export type VmStartKind = 'cold' | 'snapshot';

/** The limits of a VM by control groups of its host, beside those of its guest. */
export interface VmLimits {
  /** Null: no control group limits the CPU. */
  readonly cpus: number | null;
  /** Null: no control group limits the memory. */
  readonly memoryMib: number | null;
  /** The reason why a limit does not exist; null if both exist. */
  readonly note: string | null;
}

export type VmmChooser = 'spec' | 'auto';

/**
 * Each variant documents its time, its writer and the events that may follow. An activity writes its own actions. Decisions of the
 * run machine are written for the workflow, by the next activity that it calls. Events that a dead worker did not write are
 * missing, so a reader relies on `seq`, not on a documented order.
 */
export type RunEventBody =
  /**
   * The run's plan was checked and kept: the first event of a run, by `admit`. Anything may follow; without it, only
   * the end.
   */
  | {
      readonly type: 'run-admitted';
      readonly name: string;
      readonly kind: string;
      readonly hostId: string;
      readonly stages: readonly { readonly id: string; readonly dependsOn: readonly string[] }[];
      /** Null: the result is merged of several. */
      readonly outputStage: string | null;
      /** The start of the run's workflow, which may have waited for its admission. Absent: not known. */
      readonly startedAtMs?: number;
      /** The earlier run that this one is a retry or a fork of; absent: this run is neither. */
      readonly origin?: RunOrigin;
      /** The delivery of a deployment that started the run. Absent: no delivery did. */
      readonly trigger?: RunTrigger;
      /** Stages that return their `mock` instead of running. Absent: no stage does. */
      readonly mocked?: readonly string[];
      /** Stages whose work is an agent. Absent: no stage is. */
      readonly agents?: readonly string[];
      /** Agents that the mock agent plays. Absent: it plays no agent. */
      readonly mockAgents?: readonly string[];
      /** The budget of all its agents together. Absent: no budget. */
      readonly budget?: BudgetPlan;
    }
  /**
   * The stage does not run: its result in an earlier run is used. By `admit`, after `run-admitted`. It is the stage's end.
   */
  | {
      readonly type: 'stage-given';
      readonly stage: string;
      /** The run in which the stage ran: the origin, or a run that the origin took the result from. */
      readonly runId: string;
      readonly outcome: 'succeeded' | 'passed';
      readonly output: DataRef | null;
      readonly outputs: Readonly<Record<string, DataRef>>;
    }
  /**
   * A worker has started on this host and takes over the open run: by that worker, once. `stage-reattached` follows for each stage
   * that continues.
   */
  | { readonly type: 'run-resumed'; readonly by: string }
  /**
   * The run's last event: by the activity that ends it, by `admit` if it refuses the run, or by a client or a worker
   * that finds that the workflow has ended without it. Readers stop here.
   */
  | { readonly type: 'run-finished'; readonly outcome: RunOutcome }
  /**
   * Room was found for a VM, and it is about to be launched or found: by the activity that opens it. `vm-ready`
   * follows, unless the launch fails.
   */
  | { readonly type: 'vm-starting'; readonly vmKey: string; readonly scope: string; readonly generation: number }
  /** The guest answers: by the same activity, once for the VM. Stages run in it until it is lost or stopped. */
  | {
      readonly type: 'vm-ready';
      readonly vmKey: string;
      readonly scope: string;
      readonly generation: number;
      readonly backend: string;
      readonly vmm: string;
      /** Whether the spec names this VMM, or `auto` has selected it. Absent: the event is of an earlier build. */
      readonly chosenBy?: VmmChooser;
      readonly isolation: IsolationLevel;
      readonly accelerator: string;
      readonly kernel: string;
      readonly jail: string;
      /** Absent: not known. */
      readonly limits?: VmLimits;
      /** The time from the VMM's start to the guest's answer. */
      readonly bootMs: number;
      /** Absent: `cold`. */
      readonly start?: VmStartKind;
      /** The key of the snapshot from which the VM began; absent: it booted. */
      readonly snapshot?: string;
      /** Whether the VM waited in the pool of a worker; absent: it did not. */
      readonly pooled?: boolean;
      /** The reason why a snapshot was not used or not made. */
      readonly startNote?: string;
      /** The step after which the checkpoint was made with which the VM's disk began; absent: its disk was empty. */
      readonly resumedAfter?: string;
      /**
       * The reason why the VM of a scope that is saved after each step began with an empty disk, after a lost VM or with
       * given stages.
       */
      readonly resumeNote?: string;
    }
  /**
   * The disk of a shared VM was saved after a step: by the stage's activity, before the result of the stage. `vm-ready`
   * of another VM with `resumedAfter` may follow.
   */
  | {
      readonly type: 'checkpoint-made';
      readonly vmKey: string;
      readonly scope: string;
      readonly generation: number;
      readonly stage: string;
      readonly execKey: string;
      /** The id of the checkpoint. */
      readonly checkpoint: string;
      /** The room that it uses on the disk of the host. */
      readonly usedBytes: number;
      readonly tookMs: number;
    }
  /** The disk was not saved after a step, and the stage continues: by the same activity. An earlier checkpoint remains. */
  | {
      readonly type: 'checkpoint-failed';
      readonly vmKey: string;
      readonly scope: string;
      readonly generation: number;
      readonly stage: string;
      readonly execKey: string;
      readonly reason: string;
    }
  /**
   * The VM is gone, and not because it was released: by the stage that noticed it. `vm-stopped` follows, and
   * `scope-restarted` while the plan allows another VM.
   */
  | {
      readonly type: 'vm-lost';
      readonly vmKey: string;
      readonly scope: string;
      readonly generation: number;
      readonly reason: string;
    }
  /**
   * The VM was released, alive or not: by the stage that owned it, or when the run has it released. The next
   * generation is another VM.
   */
  | { readonly type: 'vm-stopped'; readonly vmKey: string; readonly scope: string; readonly generation: number }
  /**
   * The run machine tries a scope again whose VM was lost. `stages` are open again, whatever their results were: stages that the loss
   * interrupted, stages that had ended in the VM, and stages that these need again. Or it runs given stages, because the first VM
   * of the scope does not hold the work of the earlier run. For the workflow. `vm-starting` of the next
   * generation follows, or comes before it in a scope that is saved after each step, and `stage-started` under new keys.
   */
  | {
      readonly type: 'scope-restarted';
      readonly scope: string;
      readonly reason: string;
      readonly stages: readonly string[];
      /** The last attempt of each of `stages` before. Present if the next VM already exists, and `stages` may have begun in it. */
      readonly attempts?: readonly number[];
      /** Stages that had ended in the lost VM, and whose work the next VM holds. Absent: no stages. */
      readonly kept?: readonly string[];
    }
  /**
   * An attempt has its VM and is about to start its command: by the stage's activity. `output`, `stage-reattached` and
   * `stage-finished` follow.
   */
  | {
      readonly type: 'stage-started';
      readonly stage: string;
      readonly execKey: string;
      readonly attempt: number;
      /** It is done for each of so many items, whose events follow under keys of their own; absent: it is done once. */
      readonly items?: number;
      /** The VM of the attempt. Absent: the VM has no door, the stage needs no VM, or the event was restored. */
      readonly vmKey?: string;
      /** The budget of its agent. Absent: no budget, the work is not an agent, or the event was restored. */
      readonly budget?: BudgetPlan;
    }
  /**
   * Another try of the activity found the attempt under way, and takes over its output: by that try, once for its
   * fence.
   */
  | {
      readonly type: 'stage-reattached';
      readonly stage: string;
      readonly execKey: string;
      readonly fence: number;
      /** How the try before this one ended. */
      readonly reason: string;
    }
  /**
   * A piece of a stream, after redaction: by the stage's activity while the command runs, without gaps within the
   * stream. `from` and `to` are byte offsets before redaction: the writer's cursor.
   */
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
  /**
   * The VM's door refused a connection, or one ended: by a stage in the VM while it runs, or when the VM is released. The
   * first 200 refusals and 1,000 ends of a VM have an event each; one event counts further ones (`more`).
   */
  | ({
      readonly type: 'network';
      readonly vmKey: string;
      readonly scope: string;
      readonly generation: number;
      /** The offset of the notice among the VM's notices, in bytes: the writer's cursor. */
      readonly offset: number;
    } & DoorNotice)
  /** The agent of the stage said something: by the stage's activity, as it reads the agent's stream. */
  | { readonly type: 'agent-text'; readonly stage: string; readonly execKey: string; readonly text: string }
  /** The agent called a tool, or a tool failed: by the stage's activity, in the order of the stream. `tool` is empty if the stream does not name it. */
  | {
      readonly type: 'agent-tool';
      readonly stage: string;
      readonly execKey: string;
      readonly tool: string;
      readonly detail: string;
      readonly failed: boolean;
    }
  /** A call of a tool printed something: by the stage's activity, when the call has ended. */
  | {
      readonly type: 'agent-tool-output';
      readonly stage: string;
      readonly execKey: string;
      /** Empty if the stream does not name the tool. */
      readonly tool: string;
      /** The last bytes of what the tool printed, at most 16 KiB of UTF-8. */
      readonly text: string;
      /** Bytes of UTF-8 before `text` that only the transcript has. */
      readonly leftOutBytes: number;
    }
  /** The agent is asked again, in the same session: by the stage's activity, before the command that asks. */
  | {
      readonly type: 'agent-asked';
      readonly stage: string;
      readonly execKey: string;
      /** From 2. */
      readonly time: number;
      readonly mostTimes: number;
      /** Why its last answer was refused. */
      readonly reason: string;
    }
  /**
   * The session of the stage's step machine asks, and its agent is about to answer: by the stage's activity, once for each turn
   * of the agent. The events of the turn follow.
   */
  | {
      readonly type: 'skill-step';
      readonly stage: string;
      readonly execKey: string;
      /** The durable session. */
      readonly session: string;
      /** Which command of the attempt answers, from 1. */
      readonly command: number;
      /** With the prefix of its sub-skill. */
      readonly step: string;
      /** The turn of the session. */
      readonly turn: number;
      /** Why it is asked again; null: it is asked for the first time. */
      readonly refusal: string | null;
      /** JSON: what the agent reads, and the schema of its answer. */
      readonly asked: DataRef;
    }
  /** The agent's usage so far: by the stage's activity, after a call of the model. A later event replaces all earlier ones. */
  | {
      readonly type: 'agent-usage';
      readonly stage: string;
      readonly execKey: string;
      readonly inputTokens: number;
      readonly outputTokens: number;
      /** The part of `inputTokens` that came from a cache. */
      readonly cachedInputTokens: number;
      readonly turns: number;
      /** Null: its stream does not report costs. */
      readonly costUsd: number | null;
    }
  /**
   * The state of the stage's agent at one moment was saved: by the stage's activity, at the end of a call of a tool. A later
   * event replaces all earlier ones. `stage-resumed` of another attempt may follow.
   */
  | {
      readonly type: 'stage-progress';
      readonly stage: string;
      readonly execKey: string;
      /** The session that its command line continues. */
      readonly sessionId: string;
      readonly folders: readonly SavedFolder[];
      /** How long the agent was frozen for the save; 0 at its end. */
      readonly frozenMs: number;
      /** Number of calls of the model in the session, for a save at the end of an attempt; absent: they were not counted. */
      readonly turns?: number;
    }
  /**
   * The content of a service's output file, while it serves: by the stage's activity. A later event replaces all earlier ones,
   * and `stage-finished` replaces the last one.
   */
  | {
      readonly type: 'stage-published';
      readonly stage: string;
      readonly execKey: string;
      readonly output: DataRef;
    }
  /**
   * The attempt continues from a save of an earlier one: of this run, whose VM was lost, or of the run that this one retries with
   * `continue`. By the stage's activity, before it starts its command.
   */
  | {
      readonly type: 'stage-resumed';
      readonly stage: string;
      readonly execKey: string;
      /** The attempt that it was saved in. */
      readonly from: string;
      readonly savedAtMs: number;
      /** The run of that attempt; absent: this run. */
      readonly runId?: string;
      /** Number of calls of the model that the session has from earlier runs; absent: no calls, or not known. */
      readonly turns?: number;
    }
  /**
   * The end and the result of an attempt: by the stage's activity. There is no `stage-started` before it if no command was started.
   * `stage-retrying` follows a failure that the plan tries again.
   */
  | {
      readonly type: 'stage-finished';
      readonly stage: string;
      readonly execKey: string;
      readonly result: StageResult;
    }
  /**
   * The run machine tries the stage again when `delayMs` are over; `execKey` is the key of the attempt that failed. For the workflow.
   * `stage-started` under the next key follows.
   */
  | {
      readonly type: 'stage-retrying';
      readonly stage: string;
      readonly execKey: string;
      readonly reason: string;
      readonly delayMs: number;
    }
  /**
   * The stage waits for an answer, without a VM and a slot: by the activity that asks. `stage-answered` follows, unless the
   * run ends first.
   */
  | {
      readonly type: 'stage-asking';
      readonly stage: string;
      readonly execKey: string;
      readonly attempt: number;
      readonly question: Question;
    }
  /**
   * The answer came, or the question was withdrawn (`cancelled`). For the workflow. If this failed the stage, it may ask again after
   * `stage-retrying`.
   */
  | {
      readonly type: 'stage-answered';
      readonly stage: string;
      readonly execKey: string;
      readonly outcome: 'succeeded' | 'failed' | 'cancelled';
      /** With `failed`. */
      readonly failure: StageFailure | null;
      /** The person who answered. Absent: the answer names no person, the deadline passed, or the question was withdrawn. */
      readonly by?: string;
      /** A token or a link proved who sent the answer, and `by` is its name. Absent: `by` is a claim. */
      readonly verified?: true;
      /** The comment of the answer. */
      readonly comment?: string;
      /** The fields of a rejection; the output contains the fields of an approval. */
      readonly fields?: FieldValues;
      /** The stage's output: the answer as JSON. */
      readonly output?: DataRef;
    }
  /** The stage waits for a time, without a VM and a slot. For the workflow. `stage-woken` follows, unless the run ends first. */
  | {
      readonly type: 'stage-sleeping';
      readonly stage: string;
      readonly execKey: string;
      readonly attempt: number;
      /** Milliseconds since the epoch, by the server's clock. */
      readonly untilMs: number;
    }
  /** The time has come, or the wait was cancelled. For the workflow. It is the stage's end. */
  | {
      readonly type: 'stage-woken';
      readonly stage: string;
      readonly execKey: string;
      readonly outcome: 'succeeded' | 'cancelled';
    }
  /**
   * An attempt failed without a result of its own: its host or its VM failed once too often, or no worker finished it in
   * time. For the workflow. `execKey` is the key of the attempt, or of the next one if it got no VM. It is the stage's end.
   */
  | { readonly type: 'stage-failed'; readonly stage: string; readonly execKey: string; readonly failure: StageFailure }
  /**
   * The stage will not start: the stages that it waits for had another outcome, or the run was cancelled or gave up. For the
   * workflow. It is the stage's end, unless `scope-restarted` opens it again.
   */
  | { readonly type: 'stage-skipped'; readonly stage: string; readonly reason: string }
  /**
   * The stage's condition does not hold, so the stage does not run; stages that wait for its success continue. For the workflow. It is
   * the stage's end, unless `scope-restarted` opens it again.
   */
  | {
      readonly type: 'stage-passed';
      readonly stage: string;
      /** The output that stages which carry its output get instead; absent: no output. */
      readonly output?: DataRef;
    }
  /**
   * A loop continues: its condition did not hold after the visit before. `stages` are open again, and their attempts continue the count
   * of the earlier ones. For the workflow. Their `stage-started` follow.
   */
  | {
      readonly type: 'loop-visited';
      /** The stage that ends the loop. */
      readonly stage: string;
      /** From 2. */
      readonly visit: number;
      readonly stages: readonly string[];
    }
  /**
   * A message for people about a fact that changes no state: a value that could not be redacted, a VM that could not be released,
   * events that were restored.
   */
  | { readonly type: 'notice'; readonly level: 'info' | 'warning'; readonly message: string };

/** The question of an approval. */
export interface Question {
  readonly message: string;
  /** The names of tokens or groups that may answer over TCP; all other answers only claim a name. Empty: any. */
  readonly by: readonly string[];
  /** The answer needs a proof, and the token that started the run may not answer. Absent: any answer counts. */
  readonly selfApproval?: false | undefined;
  readonly fields: readonly ApprovalField[];
  /** Milliseconds since the epoch; null: it waits as long as the run is open. */
  readonly deadlineAtMs: number | null;
  /** The outcome at the deadline. */
  readonly onTimeout: TimeoutAnswer;
  /** The item whose stage asks, as JSON of at most 200 characters, for people; absent: the run itself asks. */
  readonly item?: string | undefined;
}

/** The result of a run's workflow, for clients of Temporal. */
export interface RunReply extends RunOutcome {
  /** The output, if it is UTF-8 and has at most `REPLY_TEXT_BYTES`; `output` has its hash and size. */
  readonly outputText?: string;
}

/** A longer text stays in the store: history keeps every result. */
export const REPLY_TEXT_BYTES = 2_048;

export interface RunOutcome {
  readonly state: 'succeeded' | 'failed' | 'cancelled' | 'terminated';
  /** The first failed stage, if a stage is the reason. */
  readonly failedStage: string | null;
  readonly failure: StageFailure | null;
  readonly output: DataRef | null;
  /** Stages that failed with `continueOnError`; absent: no such stages. */
  readonly tolerated?: readonly string[];
}
