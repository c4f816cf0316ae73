/** Lists runs, and the states that follow from their events. */
import type { RunOutcome } from '../../domain/run/event.ts';

/** `damaged`: the run's events cannot be read, or not to their end. */
export type RunState = 'running' | RunOutcome['state'] | 'damaged';

export interface IndexedRun {
  /** Null for a damaged run whose id cannot be read. */
  readonly runId: string | null;
  /** The id, or else the store's name of the run. */
  readonly label: string;
  /** The name of the run's plan; null before its admission. */
  readonly name: string | null;
  readonly state: RunState;
  /** The time of the first event; null if the run has no event, or the event cannot be read. */
  readonly startedAtMs: number | null;
  /** The time of the terminal event; null without a terminal event, and for a damaged run. */
  readonly endedAtMs: number | null;
  /** A description of the damage; null in any other state. */
  readonly problem: string | null;
}

/** A position in the order of runs. A run that starts later comes before it, so the runs after it do not move. */
export interface RunPosition {
  readonly startedAtMs: number;
  readonly label: string;
}

export interface RunQuery {
  readonly state?: RunState;
  /** The complete name of the plan. */
  readonly name?: string;
  /**
   * Only runs that started at this time or later, in milliseconds since the epoch, and runs whose start cannot be read.
   */
  readonly sinceMs?: number;
  /** Only runs after this position: `next` of the previous page. */
  readonly before?: RunPosition;
  /** The most runs on one page, from 1. */
  readonly limit: number;
}

export interface RunPage {
  readonly runs: readonly IndexedRun[];
  /** The position of the next page; null if no run follows. */
  readonly next: RunPosition | null;
}

export interface IdQuery {
  /** Only ids that begin with this text; empty: all. */
  readonly prefix: string;
  /** Only ids for which it returns true; absent: all. */
  readonly isWanted?: (runId: string) => boolean;
  /** Only runs after this position: `next` of the previous page. */
  readonly before?: RunPosition;
  /** The most ids on one page, from 1. */
  readonly limit: number;
}

export interface IdPage {
  readonly ids: readonly string[];
  /** The position of the next page; null if no id follows. */
  readonly next: RunPosition | null;
}

/**
 * Lists runs that have events, the run with the latest start first. Damaged runs without a readable start come before
 * all others.
 */
export interface RunIndex {
  list(query: RunQuery): Promise<RunPage>;
  /** Returns the ids of the runs in state `running`. */
  openRuns(): Promise<readonly string[]>;
  /** Returns a page of ids, in the order of `list`. */
  listIds(query: IdQuery): Promise<IdPage>;
  /** Returns the ids that begin with a text, in the order of `list`. */
  idsFrom(prefix: string): Promise<readonly string[]>;
  /** Returns false also for a text that is not a run id. */
  has(runId: string): Promise<boolean>;
}
