/** Small JSON records of a run, each replaced as a whole. */
import { randomBytes } from 'node:crypto';
import { closeSync, fsync, openSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { RunRecords } from '../../activities/ports/run-records.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { aText, valuesOf } from '../../domain/run/shape.ts';
import { damaged, runFileFailure } from './damage.ts';
import { DurableFolders, errnoOf, storeFailure, syncDir } from './layout.ts';
import { recordProblem } from './record-shapes.ts';
import { makeRunFolder, recordsDir, refuseSetAside, runDir, runFolderName } from './run-folder.ts';

const sync = promisify(fsync);
/** Room for the `.json` and for the suffix of a file on its way. */
const MAX_NAME_BYTES = 220;

export interface FileRunRecords extends RunRecords {
  /** What a client hands over for a run: read by the worker, dropped at the terminal event. */
  putHostVariables(runId: string, variables: Readonly<Record<string, string>>): Promise<void>;
  drop(runId: string, name: string): Promise<void>;
}

/**
 * `get` answers null for a record that does not exist, and gives no value that does not look as its name says. Names are any text (exec keys have slashes); a name
 * whose file name would be too long is refused with `store/io`.
 */
export function createFileRunRecords(stateDir: string): FileRunRecords {
  const folders = new DurableFolders(stateDir);
  return {
    async put(runId, name, value) {
      const path = recordPath(stateDir, runId, name);
      await makeRunFolder(stateDir, folders, runId);
      await writeJson(folders, path, value);
    },
    get: async (runId, name) => readRecord(stateDir, runId, name),
    async putHostVariables(runId, variables) {
      await makeRunFolder(stateDir, folders, runId);
      await writeJson(folders, hostVariablesPath(stateDir, runId), variables);
    },
    hostVariables: async (runId) => readHostVariables(stateDir, runId),
    dropHostVariables: (runId) => remove(hostVariablesPath(stateDir, runId)),
    drop: (runId, name) => remove(recordPath(stateDir, runId, name)),
  };
}

async function remove(path: string): Promise<void> {
  try {
    await rm(path, { force: true });
  } catch (error) {
    throw storeFailure('cannot remove', path, error);
  }
}

function hostVariablesPath(stateDir: string, runId: string): string {
  return join(runDir(stateDir, runId), 'host-variables.json');
}

function recordPath(stateDir: string, runId: string, name: string): string {
  const file = encodeURIComponent(name).replace(/^\./, '%2E');
  if (file === '' || file.length > MAX_NAME_BYTES) {
    throw new CodedError(
      'store/io',
      `record name ${JSON.stringify(name)} of run ${runId} has to be 1 to ${MAX_NAME_BYTES} bytes when escaped`,
    );
  }
  return join(recordsDir(stateDir, runId), `${file}.json`);
}

/**
 * Only waiting for the disk goes through the thread pool: the other calls end in the page cache within microseconds,
 * and a trip to the pool costs a hundred.
 */
async function writeJson(folders: DurableFolders, path: string, value: unknown): Promise<void> {
  const text = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`record ${path}: a value that JSON cannot say`);
  const partial = `${path}.${randomBytes(6).toString('hex')}.partial`;
  try {
    await folders.make(dirname(path));
    const fd = openSync(partial, 'wx', 0o600);
    try {
      writeFileSync(fd, text);
      await sync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(partial, path);
    await syncDir(dirname(path));
  } catch (error) {
    rmSync(partial, { force: true });
    throw runFileFailure('cannot write', path, error);
  }
}

/** @throws CodedError `store/damaged` for one that does not look as it was written, or whose run was set aside */
export function readRecord(stateDir: string, runId: string, name: string): unknown {
  const path = recordPath(stateDir, runId, name);
  const value = readJson(path);
  if (value === null) refuseSetAside(stateDir, runFolderName(runId));
  const problem = value === null ? null : recordProblem(name, value);
  if (problem !== null) throw damaged(path, problem);
  return value;
}

/** Null for a file that is not there; what is in one is never null. */
function readJson(path: string): unknown {
  let text: string;
  try {
    if (!statSync(path).isFile()) throw damaged(path, 'it is not a file');
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null;
    throw runFileFailure('cannot read', path, error);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw damaged(path, 'it is not JSON', error);
  }
  if (value === null) throw damaged(path, 'it holds nothing');
  return value;
}

/** @throws CodedError `store/damaged` */
export function readHostVariables(stateDir: string, runId: string): Readonly<Record<string, string>> {
  const path = hostVariablesPath(stateDir, runId);
  const value = readJson(path);
  if (value === null) return {};
  const problem = valuesOf(aText)(value, 'variables');
  if (problem !== null) throw damaged(path, problem);
  return value as Record<string, string>;
}
