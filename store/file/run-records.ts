/** Small JSON records of a run, each replaced as a whole. */
import { randomBytes } from 'node:crypto';
import { closeSync, fsync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { RunRecords } from '../../activities/ports.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { DurableFolders, errnoOf, recordsDir, runDir, storeFailure, syncDir } from './layout.ts';

const sync = promisify(fsync);
/** Room for the `.json` and for the suffix of a file on its way. */
const MAX_NAME_BYTES = 220;

export interface FileRunRecords extends RunRecords {
  /** What a client hands over for a run: read by the worker, dropped at the terminal event. */
  putHostVariables(runId: string, variables: Readonly<Record<string, string>>): Promise<void>;
}

/**
 * `get` answers null for a record that does not exist. Names are any text (exec keys have slashes); a name
 * whose file name would be too long is refused with `store/io`.
 */
export function createFileRunRecords(stateDir: string): FileRunRecords {
  const folders = new DurableFolders(stateDir);
  return {
    async put(runId, name, value) {
      await writeJson(folders, recordPath(stateDir, runId, name), value);
    },
    get: async (runId, name) => readJson(recordPath(stateDir, runId, name)),
    async putHostVariables(runId, variables) {
      await writeJson(folders, hostVariablesPath(stateDir, runId), variables);
    },
    async hostVariables(runId) {
      const path = hostVariablesPath(stateDir, runId);
      return checkVariables(path, readJson(path));
    },
    async dropHostVariables(runId) {
      const path = hostVariablesPath(stateDir, runId);
      try {
        await rm(path, { force: true });
      } catch (error) {
        throw storeFailure('cannot remove', path, error);
      }
    },
  };
}

function hostVariablesPath(stateDir: string, runId: string): string {
  return join(runDir(stateDir, runId), 'host-variables.json');
}

function recordPath(stateDir: string, runId: string, name: string): string {
  const file = encodeURIComponent(name).replace(/^\./, '%2E');
  if (file === '' || file.length > MAX_NAME_BYTES) {
    throw new CodedError('store/io', `record name ${JSON.stringify(name)} of run ${runId} has to be 1 to ${MAX_NAME_BYTES} bytes when escaped`);
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
    throw storeFailure('cannot write', path, error);
  }
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as unknown;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null;
    throw storeFailure('cannot read', path, error);
  }
}

function checkVariables(path: string, value: unknown): Readonly<Record<string, string>> {
  if (value === null) return {};
  if (typeof value !== 'object' || Array.isArray(value) || !Object.values(value).every((text) => typeof text === 'string')) {
    throw new CodedError('store/io', `${path} does not hold variables as an object of texts; start the run again`);
  }
  return value as Record<string, string>;
}
