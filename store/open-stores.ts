/** Opens all data of runs. No other file opens it. */
import type { LocalStore } from '../activities/ports/local-store.ts';
import type { ServiceSettings } from '../domain/access/service-settings.ts';
import type { RunInspector } from '../activities/ports/run-inspector.ts';
import { createFileArtifactStore } from './file/artifact-store.ts';
import type { Durability } from './file/durability.ts';
import { createFileEventLog } from './file/event-log.ts';
import { createFileHostVariables } from './file/host-variables.ts';
import { DurableFolders } from './file/layout.ts';
import { createFileLocalStore } from './file/local-store.ts';
import { createFileRunIndex } from './file/run-index.ts';
import { createFileRunReader } from './file/run-reader.ts';
import { createFileHostMarks, createFileRunRecords } from './file/run-records.ts';
import { refuseSetAside } from './file/run-folder.ts';
import { runFolderName } from './state-folder.ts';
import { requireStateFormat } from './state-format.ts';
import type { Stores } from './stores.ts';

/** Part of an environment. */
export interface StorePlace {
  readonly stateDir: string;
  /** Null or absent: `power`. */
  readonly durability?: Durability | null;
  /** The service on another machine that has the runs; null or absent: the state folder has them. */
  readonly service?: ServiceSettings | null;
}

/** @throws CodedError `host/state-format` */
export async function openStores({ stateDir, durability, service }: StorePlace): Promise<Stores> {
  // Loaded when it is used, because most commands read this machine.
  if (service !== null && service !== undefined) return (await import('./http/stores.ts')).openHttpStores(service);
  requireStateFormat(stateDir);
  // One for all: each waits for the disk once for the folder of a run.
  const folders = new DurableFolders(stateDir);
  const events = createFileEventLog(stateDir, durability ?? 'power', folders);
  return {
    events,
    reader: createFileRunReader(stateDir),
    index: createFileRunIndex(stateDir),
    artifacts: createFileArtifactStore(stateDir),
    records: createFileRunRecords(stateDir, folders),
    marks: createFileHostMarks(stateDir, folders),
    hostVariables: createFileHostVariables(stateDir, folders),
    inspector: inspectorOf(stateDir),
    // Loaded when it is used, because most commands delete nothing.
    pruner: { prune: async (options) => (await import('./file/prune.ts')).prune(stateDir, options) },
    local: openLocalStore({ stateDir }),
    close: () => events.close(),
  };
}

/** Returns what is known without opening a store. Null: its data is not on a disk of this host. */
export function openLocalStore({ stateDir }: StorePlace): LocalStore | null {
  return createFileLocalStore(stateDir);
}

/** Loaded when it is used, because most commands inspect nothing. */
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
