/**
 * Changes of runs: of this machine, or through a service on another machine. Commands call these functions, and do not
 * know which machine has the runs.
 */
import type { DiskRoom } from '../../activities/ports/local-store.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import type { RunEvent } from '../../domain/run/event.ts';
import type { RunView } from '../../store/run-view.ts';
import type { ContinuedJson } from '../json/continued-json.ts';
import type { OriginJson } from '../json/origin-json.ts';
import type { RerunRequest } from '../start/prepare-rerun.ts';
import type { StartRequest } from '../start/start-run.ts';
import type { AnswerReceipt } from '../../workflows/run/answer-request.ts';
import type { AnswerOptions } from '../answers/answer-run.ts';
import type { RunElsewhere } from '../runs/run-elsewhere.ts';

export interface RunControl {
  /**
   * Starts a run, and first everything that its machine lacks for it.
   * @throws AppError, ServiceError; nothing is left of the run then
   */
  start(request: StartRequest, onProgress: (line: string) => void): Promise<ConnectedRun>;
  /**
   * Compiles a retry or a fork, and finds which results of the earlier run it takes over. Starts nothing.
   * @throws AppError, ServiceError for everything that admission would refuse
   */
  prepare(request: RerunRequest): Promise<Rerun>;
  /** Connects to a run of the stores, to follow it. The stack of the run stays up during that time. */
  connect(runId: string, onProgress: (line: string) => void): Promise<ConnectedRun>;
  /** Asks a run to stop. @throws AppError if no server answers */
  cancel(request: CancelRequest): Promise<AskedRun>;
  /** Answers a question of a run. The same answer gets the same receipt. @throws AppError, ServiceError */
  answer(found: string | RunElsewhere, options: AnswerOptions): Promise<AnswerReceipt>;
  /** Ends VMs that failed stages of a run left. @throws AppError if no VM was left; ServiceError */
  release(request: ReleaseRequest): Promise<ReleasedVms>;
}

export interface ReleaseRequest {
  /** The id of the run, a unique beginning of it, or `latest`. */
  readonly run: string;
  /** A stage or an item; undefined: all of them. */
  readonly stage: string | undefined;
}

export interface ReleasedVms {
  readonly runId: string;
  /** At least one. */
  readonly released: readonly { readonly stage: string; readonly vmKey: string }[];
}

/** A retry or a fork that can start. */
export interface Rerun {
  /** The plan that runs, without new limits of agents that continue. */
  readonly plan: Plan;
  /** The stages that it takes over and runs again, and the agents that continue. */
  readonly shown: OriginJson & Partial<ContinuedJson>;
  /** As in `Machine`: set if another person wrote the spec, so it gets no login of the user. */
  readonly confinedTo: string | undefined;
  /** A delivery of a deployment started the earlier run: the service has values of its variables. */
  readonly isOfDeployment: boolean;
  /** Starts it as `start` does. */
  start(taken: RerunOptions, onProgress: (line: string) => void): Promise<ConnectedRun>;
}

/** The part of a start that does not depend on the spec. */
export type RerunOptions = Pick<
  StartRequest,
  'runId' | 'hostVariables' | 'allowMounts' | 'allowGit' | 'input' | 'mayAsk'
>;

/** A run that can be followed. */
export interface ConnectedRun {
  /** Its page in the Temporal UI; null: there is no page that a user of this machine can open. */
  readonly url: string | null;
  /** Hands over each event, until the last one or the signal. A connection that is lost is opened again. */
  follow(follower: Follower): Promise<RunView>;
  /** Asks the run to stop, and lets its stages with `finally` run. */
  cancel(): Promise<void>;
  /** Waits until other commands know the run. */
  waitUntilAdmitted(): Promise<void>;
  /** Returns a line about the worker that the run waits for; null: it waits for no worker. */
  explainWait(): Promise<string | null>;
}

export interface Follower {
  /** Aborting it ends the following, not the run. */
  readonly signal: AbortSignal;
  readonly onEvent: (event: RunEvent, view: RunView) => Promise<void>;
  /** Reports a problem that does not end the following; each problem once. */
  readonly onTrouble: (message: string) => void;
  /** Reports why the run waits. */
  readonly onNotice: (message: string) => void;
  /** Called once each time that the disk of this machine becomes full, if it has the runs. */
  readonly onLowDisk: (disk: DiskRoom) => void;
}

export interface CancelRequest {
  readonly found: string | RunElsewhere;
  /** The run before the cancel; null: only the server knows it. */
  readonly before: RunView | null;
  /** Stages with `finally` run, however often the run was cancelled before. */
  readonly keepsFinally: boolean;
  readonly onProgress: (line: string) => void;
}

export interface AskedRun {
  /** Null: the events of the run will show it. */
  readonly state: string | null;
  readonly wasRunning: boolean;
}
