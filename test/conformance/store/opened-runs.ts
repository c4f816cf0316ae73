import type { EventLog } from '../../../activities/ports/event-log.ts';
import type { RunIndex } from '../../../activities/ports/run-index.ts';
import type { RunReader } from '../../../activities/ports/run-reader.ts';

/** Runs as one process has them open: to write, to read, to list. */
export interface OpenedRuns extends EventLog, RunReader {
  readonly index: RunIndex;
  /** Settles when what was under way has ended. */
  close(): Promise<void>;
}
