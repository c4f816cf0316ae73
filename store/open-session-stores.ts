/** Opens all data of sessions outside of their histories. No other file opens it. */
import type {
  LocalSessions,
  ObservedEvents,
  SessionPruner,
  SessionVariables,
} from '../activities/ports/session-stores.ts';
import type { OpenSessionStore, SessionRecordStore } from '../activities/ports/sessions.ts';
import type { StepRecord } from '../domain/step-machine/records.ts';
import { createObservedFiles, readLastObserved, noteObserved } from './sessions/observed-files.ts';
import { createOpenedFiles } from './sessions/opened-files.ts';
import { createFileSessionPruner } from './sessions/prune-skills.ts';
import { createRecordFiles, readRecordFiles, readRecords, sessionRecordsDir } from './sessions/record-files.ts';
import { createVariableFiles } from './sessions/variable-files.ts';

/** Part of an environment. */
export interface SessionPlace {
  readonly stateDir: string;
}

export interface SessionStores {
  readonly records: SessionRecordStore;
  readonly opened: OpenSessionStore;
  readonly observed: ObservedEvents;
  readonly variables: SessionVariables;
  /** Null: the data is not on a disk of this host. */
  readonly local: LocalSessions | null;
}

/** For a worker, which keeps the stores open. @param serverId  the server of the sessions */
export function openSessionStores({ stateDir }: SessionPlace, serverId: string): SessionStores {
  return {
    records: createRecordFiles(stateDir, serverId),
    opened: createOpenedFiles(stateDir, serverId),
    observed: createObservedFiles(stateDir, serverId),
    variables: createVariableFiles(stateDir),
    local: { folderOf: (session) => sessionRecordsDir(stateDir, session) },
  };
}

export function openSessionVariables({ stateDir }: SessionPlace): SessionVariables {
  return createVariableFiles(stateDir);
}

/**
 * Yields the records up to those that `ref` names in parts, oldest first.
 * @throws CodedError as `SessionRecordReader`
 */
export async function* readSessionHistory(
  { stateDir }: SessionPlace,
  { session, ref }: { readonly session: string; readonly ref: string },
): AsyncGenerator<readonly StepRecord[]> {
  yield* readRecordFiles(sessionRecordsDir(stateDir, session), ref);
}

export function openSessionPruner({ stateDir }: SessionPlace): SessionPruner {
  return createFileSessionPruner(stateDir);
}

/**
 * One session's data for the process of its skill. Synchronous, because authors' code reads older records in an
 * expression.
 */
export interface SessionFolder {
  /** All records up to those that `ref` names, oldest first. @throws CodedError `store/io`, `session/foreign` */
  readRecords(ref: string): readonly StepRecord[];
  lastObserved(): number;
  noteObserved(number: number): void;
}

/** @param folder  of `LocalSessions` */
export function openSessionFolder(folder: string): SessionFolder {
  return {
    readRecords: (ref) => readRecords(folder, ref),
    lastObserved: () => readLastObserved(folder),
    noteObserved: (number) => noteObserved(folder, number),
  };
}
