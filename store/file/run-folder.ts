/**
 * Maps the folders below `runs/` to ids of runs. An id of `A-Z a-z 0-9 . _ -` is its folder's name; other ids are
 * escaped. If the escaped form is too long for a file system, the name is the hash of the id, and a file in the folder
 * contains the id. Any other name belongs to no run.
 */
import { accessSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import { isRunId, unescapeRunId } from '../../domain/run/run-id.ts';
import { createDamageError } from './damage.ts';
import { damagedDir, createStoreFailure, syncDir, type DurableFolders } from './layout.ts';
import { errnoOf } from '../../files/errno.ts';
import { nameHalfFile, removeHalfFilesIn } from '../half-files.ts';
import { FOLDER_NAME_BYTES, runDir, runFolderName, runsDir } from '../state-folder.ts';

/** No escaped id looks like this: `%lo` escapes nothing. */
const HASHED = /^%long-[0-9a-f]{64}$/;
const ID_FILE = 'run-id';

/**
 * Returns the id of the run whose folder has this name; null: the folder belongs to no run.
 * @throws CodedError `store/damaged`, `store/io`
 */
export function runIdOfFolder(parent: string, name: string): string | null {
  if (HASHED.test(name)) return readHashedId(parent, name);
  if (name.length > FOLDER_NAME_BYTES) return null;
  return unescapeRunId(name);
}

export interface RunFolder {
  readonly name: string;
  readonly path: string;
  /** Null if the name is a hash and the id cannot be read. */
  readonly runId: string | null;
  /** Why the id cannot be read; null when it can. */
  readonly problem: CodedError | null;
}

/** Lists the folders of runs by name, and skips other entries. @throws CodedError `store/io` */
export async function listRunFolders(parent: string): Promise<readonly RunFolder[]> {
  let names: string[];
  try {
    names = (await readdir(parent)).toSorted();
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw createStoreFailure('cannot list', parent, error);
  }
  return names.flatMap((name): RunFolder[] => {
    const path = join(parent, name);
    try {
      const runId = runIdOfFolder(parent, name);
      return runId === null ? [] : [{ name, path, runId, problem: null }];
    } catch (error) {
      if (!isCodedError(error)) throw error;
      return [{ name, path, runId: null, problem: error }];
    }
  });
}

/**
 * Makes the folder of a run, with a file for an id that is not in the name. A power cut may take the folder until
 * `folders` has settled it, or a folder in it.
 * @throws CodedError `store/damaged` for a run that was set aside
 */
export async function makeRunFolder(stateDir: string, folders: DurableFolders, runId: string): Promise<void> {
  const name = runFolderName(runId);
  const dir = join(runsDir(stateDir), name);
  if (!existsSync(dir)) refuseSetAside(stateDir, name);
  folders.makeNow(dir);
  // Also in an existing folder: the process that made it may have died before it wrote the id.
  if (!HASHED.test(name) || existsSync(join(dir, ID_FILE))) return;
  const partial = nameHalfFile(join(dir, ID_FILE));
  try {
    writeFileSync(partial, JSON.stringify(runId), { flag: 'wx', mode: 0o600, flush: true });
    renameSync(partial, join(dir, ID_FILE));
    await syncDir(dir);
  } catch (error) {
    rmSync(partial, { force: true });
    throw createStoreFailure('cannot write', join(dir, ID_FILE), error);
  }
}

/** Removes half files of a run that killed processes left. A process that still writes makes its file again. @throws CodedError `store/io` */
export function removeHalfFilesOfRun(stateDir: string, runId: string): void {
  const dir = runDir(stateDir, runId);
  try {
    removeHalfFilesIn(dir);
    removeHalfFilesIn(recordsDir(stateDir, runId));
  } catch (error) {
    throw createStoreFailure('cannot remove half files of', dir, error);
  }
}

/** A run that was set aside has no data here, and a process that continues it must not begin from nothing. */
export function refuseSetAside(stateDir: string, folder: string): void {
  const aside = join(damagedDir(stateDir), folder);
  if (existsSync(aside))
    throw createDamageError(aside, 'the run was set aside; to use its id again, remove that folder');
}

function readHashedId(parent: string, name: string): string {
  const path = join(parent, name, ID_FILE);
  let id: unknown;
  try {
    id = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === undefined) throw createDamageError(path, 'it does not hold the id of the run', error);
    if (errno === 'ENOENT' || errno === 'EISDIR') throw createDamageError(path, 'the id of the run is missing', error);
    throw createStoreFailure('cannot read', path, error);
  }
  if (typeof id !== 'string' || !isRunId(id) || runFolderName(id) !== name)
    throw createDamageError(path, 'it holds the id of another run');
  return id;
}

export function eventLogPath(stateDir: string, runId: string): string {
  return join(runDir(stateDir, runId), 'events.jsonl');
}

/**
 * True if the run has events, or if its events cannot be checked: then the next read reports it.
 * @throws CodedError `store/io` for a text that is not a run id
 */
export function hasLog(stateDir: string, runId: string): boolean {
  try {
    accessSync(eventLogPath(stateDir, runId));
    return true;
  } catch (error) {
    if (error instanceof CodedError) throw error;
    const errno = errnoOf(error);
    return errno !== 'ENOENT' && errno !== 'ENOTDIR';
  }
}

/** Output pieces too large for the log, one file per writing process. */
export function outputDir(stateDir: string, runId: string): string {
  return join(runDir(stateDir, runId), 'output');
}

export function recordsDir(stateDir: string, runId: string): string {
  return join(runDir(stateDir, runId), 'records');
}
