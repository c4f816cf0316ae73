/** Records of runs, one file each. Marks of this host are next to them, under names that no record has. */
import { join } from 'node:path';
import type { HostMarks } from '../../activities/ports/host-marks.ts';
import type { RunRecords } from '../../activities/ports/run-records.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { createDamageError } from './damage.ts';
import type { Durability } from './durability.ts';
import { createJson, isEmptyFile, readJson, removeFile, writeJson } from './json-file.ts';
import { DurableFolders } from './layout.ts';
import { findRecordProblem } from '../shapes/record-shapes.ts';
import { makeRunFolder, recordsDir, refuseSetAside } from './run-folder.ts';
import { runFolderName } from '../state-folder.ts';
import { quote } from '../../domain/units/quote.ts';

/** Room for the `.json` and for the suffix of a file on its way. */
const MAX_NAME_BYTES = 220;

/**
 * `get` returns null for a record that does not exist, and rejects a value whose shape is wrong for its name. Names are
 * any text (exec keys have slashes). A name whose file name would be too long is rejected with `store/io`.
 */
export function createFileRunRecords(stateDir: string, folders = new DurableFolders(stateDir)): RunRecords {
  return {
    put: (runId, name, value) => writeRecord(stateDir, folders, runId, name, value, 'power'),
    async create(runId, name, value, { lasts = true } = {}) {
      const path = recordPath(stateDir, runId, name);
      await makeRunFolder(stateDir, folders, runId);
      return await createJson(folders, path, value, lasts ? 'power' : 'process');
    },
    get: async (runId, name) => readRecord(stateDir, runId, name),
    drop: async (runId, name) => removeFile(recordPath(stateDir, runId, name)),
  };
}

/** A state folder belongs to one host, so a process that has its records also has its marks. */
export function createFileHostMarks(stateDir: string, folders = new DurableFolders(stateDir)): HostMarks {
  const { put, get, drop } = createFileRunRecords(stateDir, folders);
  return {
    put,
    get,
    drop,
    // Two waits for the disk would be most of the time of an item with a short command.
    putOfVm: (runId, name, value) => writeRecord(stateDir, folders, runId, name, value, 'process'),
    // A power cut empties a file that was renamed before its bytes were on the disk. Anything else is damage.
    getOfVm: async (runId, name) => (isEmptyFile(recordPath(stateDir, runId, name)) ? null : get(runId, name)),
  };
}

async function writeRecord(
  stateDir: string,
  folders: DurableFolders,
  runId: string,
  name: string,
  value: unknown,
  durability: Durability,
): Promise<void> {
  const path = recordPath(stateDir, runId, name);
  await makeRunFolder(stateDir, folders, runId);
  await writeJson(folders, path, value, durability);
}

function recordPath(stateDir: string, runId: string, name: string): string {
  const file = encodeURIComponent(name).replace(/^\./, '%2E');
  if (file === '' || file.length > MAX_NAME_BYTES) {
    throw new CodedError(
      'store/io',
      `record name ${quote(name)} of run ${runId} must be 1 to ${MAX_NAME_BYTES} bytes when escaped`,
    );
  }
  return join(recordsDir(stateDir, runId), `${file}.json`);
}

/** @throws CodedError `store/damaged` for a record of the wrong shape, or of a run that was set aside */
export function readRecord(stateDir: string, runId: string, name: string): unknown {
  const path = recordPath(stateDir, runId, name);
  const value = readJson(path);
  if (value === null) refuseSetAside(stateDir, runFolderName(runId));
  const problem = value === null ? null : findRecordProblem(name, value);
  if (problem !== null) throw createDamageError(path, problem);
  return value;
}
