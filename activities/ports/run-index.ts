/** Which runs there are, and what their events come to. */
import type { RunOutcome } from '../../domain/run/event.ts';

/** `damaged`: its events cannot be read, or not to their end. */
export type RunState = 'running' | RunOutcome['state'] | 'damaged';

export interface IndexedRun {
  /** Null for a damaged run of which not even the id can be read. */
  readonly runId: string | null;
  /** The id, else what the store calls the run. */
  readonly label: string;
  /** Of its plan; null before its admission. */
  readonly name: string | null;
  readonly state: RunState;
  /** Of its first event; null while it has none, or where that cannot be read. */
  readonly startedAtMs: number | null;
  /** Of its terminal event; null while it has none, and for a damaged run. */
  readonly endedAtMs: number | null;
  /** What is damaged; null in any other state. */
  readonly problem: string | null;
}

/** A place in the order of runs. What starts later stands before it and moves nothing behind it. */
export interface RunPosition {
  readonly startedAtMs: number;
  readonly label: string;
}

export interface RunQuery {
  readonly state?: RunState;
  /** The whole name of the plan. */
  readonly name?: string;
  /** Only runs that started at this time or later, in milliseconds since the epoch, and those whose start cannot be read. */
  readonly sinceMs?: number;
  /** Only runs behind this place: `next` of the page before. */
  readonly before?: RunPosition;
  /** Most runs of one page, from 1. */
  readonly limit: number;
}

export interface RunPage {
  readonly runs: readonly IndexedRun[];
  /** Null when nothing follows. */
  readonly next: RunPosition | null;
}

/** Runs stand in the index once they have events: the latest by its start first, damaged ones without a readable start before all. */
export interface RunIndex {
  list(query: RunQuery): Promise<RunPage>;
  /** Ids of the runs in state `running`. */
  openRuns(): Promise<readonly string[]>;
  /** Ids that begin with a text, in the order of `list`. */
  idsFrom(prefix: string): Promise<readonly string[]>;
  /** False also for a text that is not a run id. */
  has(runId: string): Promise<boolean>;
}
