/** All that is kept of runs, and the one place that makes it. */
import type { ArtifactStore } from '../activities/ports/artifacts.ts';
import type { EventLog } from '../activities/ports/event-log.ts';
import type { HostMarks } from '../activities/ports/host-marks.ts';
import type { HostVariables } from '../activities/ports/host-variables.ts';
import type { RunIndex } from '../activities/ports/run-index.ts';
import type { RunReader } from '../activities/ports/run-reader.ts';
import type { RunRecords } from '../activities/ports/run-records.ts';
import { createFileArtifactStore } from './file/artifact-store.ts';
import type { Durability } from './file/durability.ts';
import { createFileEventLog } from './file/event-log.ts';
import { createFileHostVariables } from './file/host-variables.ts';
import { createFileRunIndex } from './file/run-index.ts';
import { createFileRunReader } from './file/run-reader.ts';
import { createFileHostMarks, createFileRunRecords } from './file/run-records.ts';
import { requireStateFormat } from './state-format.ts';

export interface Stores {
  readonly events: EventLog;
  readonly reader: RunReader;
  readonly index: RunIndex;
  readonly artifacts: ArtifactStore;
  readonly records: RunRecords;
  readonly marks: HostMarks;
  readonly hostVariables: HostVariables;
  /** Settles when what was under way has ended. Nothing of them is used from then on. */
  close(): Promise<void>;
}

/** Part of an environment. */
export interface StorePlace {
  readonly stateDir: string;
  /** Null or absent: `power`. */
  readonly durability?: Durability | null;
}

/** @throws CodedError `host/state-format` */
export async function openStores({ stateDir, durability }: StorePlace): Promise<Stores> {
  requireStateFormat(stateDir);
  const events = createFileEventLog(stateDir, durability ?? 'power');
  return {
    events,
    reader: createFileRunReader(stateDir),
    index: createFileRunIndex(stateDir),
    artifacts: createFileArtifactStore(stateDir),
    records: createFileRunRecords(stateDir),
    marks: createFileHostMarks(stateDir),
    hostVariables: createFileHostVariables(stateDir),
    close: () => events.close(),
  };
}
