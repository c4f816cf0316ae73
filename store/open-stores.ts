/** All that is kept of runs, and the one place that makes it. */
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
import { createFileArtifactStore } from './file/artifact-store.ts';
import type { Durability } from './file/durability.ts';
import { createFileEventLog } from './file/event-log.ts';
import { createFileHostVariables } from './file/host-variables.ts';
import { createFileLocalStore } from './file/local-store.ts';
import { createFileRunIndex } from './file/run-index.ts';
import { createFileRunReader } from './file/run-reader.ts';
import { createFileHostMarks, createFileRunRecords } from './file/run-records.ts';
import { refuseSetAside } from './file/run-folder.ts';
import { runFolderName } from './state-folder.ts';
import { requireStateFormat } from './state-format.ts';

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
    inspector: inspectorOf(stateDir),
    // Loaded when it is used: most commands delete nothing.
    pruner: { prune: async (options) => (await import('./file/prune.ts')).prune(stateDir, options) },
    local: openLocalStore({ stateDir }),
    close: () => events.close(),
  };
}

/** What is known without opening a store. Null: its data is not on a disk of this host. */
export function openLocalStore({ stateDir }: StorePlace): LocalStore | null {
  return createFileLocalStore(stateDir);
}

/** Loaded when it is used: most commands inspect nothing. */
function inspectorOf(stateDir: string): RunInspector {
  const inspect = () => import('./file/inspect.ts');
  return {
    findDamaged: async () => (await inspect()).findDamagedRuns(stateDir),
    checkMainRecords: async (runId, events) => (await inspect()).checkMainRecords(stateDir, runId, events),
    mayBeBeginning: async (run) => (await inspect()).mayBeBeginning(stateDir, run),
    setAside: async (run) => (await import('./file/set-aside.ts')).setAside(stateDir, run),
    refuseSetAside: async (runId) => refuseSetAside(stateDir, runFolderName(runId)),
  };
}
