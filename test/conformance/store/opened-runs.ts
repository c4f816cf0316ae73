import type { EventLog } from '../../../activities/ports/event-log.ts';
import type { RunIndex } from '../../../activities/ports/run-index.ts';
import type { RunReader } from '../../../activities/ports/run-reader.ts';

/** The stores of runs that one process has open: to write, to read, to list. */
export interface OpenedRuns extends EventLog, RunReader {
  readonly index: RunIndex;
  /** Settles when all work has ended. */
  close(): Promise<void>;
}
