/** The stores of runs, which each kind of store implements. */
import type { ArtifactStore } from '../activities/ports/artifacts.ts';
import type { EventLog } from '../activities/ports/event-log.ts';
import type { HostMarks } from '../activities/ports/host-marks.ts';
import type { HostVariables } from '../activities/ports/host-variables.ts';
import type { LocalStore } from '../activities/ports/local-store.ts';
import type { RunIndex } from '../activities/ports/run-index.ts';
import type { RunInspector } from '../activities/ports/run-inspector.ts';
import type { RunPruner } from '../activities/ports/run-pruner.ts';
import type { RunReader } from '../activities/ports/run-reader.ts';
import type { RunRecords } from '../activities/ports/run-records.ts';

export interface Stores {
  readonly events: EventLog;
  readonly reader: RunReader;
  readonly index: RunIndex;
  readonly artifacts: ArtifactStore;
  readonly records: RunRecords;
  readonly marks: HostMarks;
  readonly hostVariables: HostVariables;
  readonly inspector: RunInspector;
  readonly pruner: RunPruner;
  /** Null: the store's data is not on a disk of this host. */
  readonly local: LocalStore | null;
  /** Settles when all work has ended. The caller uses no store after the call. */
  close(): Promise<void>;
}
