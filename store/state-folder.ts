/**
 * Folders of a host below its state folder, for every kind of store. A run's folder also contains this host's data of
 * the run, so prune removes both at once.
 */
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { CodedError } from '../domain/errors/coded-error.ts';
import { escapeRunId, runIdProblem } from '../domain/run/run-id.ts';
import { errnoOf } from '../files/errno.ts';

/** File systems allow 255 bytes; moving a folder aside adds to its name. */
export const FOLDER_NAME_BYTES = 200;

const CHECKPOINTS = 'checkpoints';

export function runsDir(stateDir: string): string {
  return join(stateDir, 'runs');
}

/** Run directories of VMs; the keeper of a VM owns the contents. */
export function vmsDir(stateDir: string): string {
  return join(stateDir, 'vms');
}

/**
 * An id of `A-Z a-z 0-9 . _ -` is its folder's name; others are escaped, and one whose escaped form is too long for a file system
 * is named by its hash.
 * @throws CodedError `store/io` for a text that is no run id
 */
export function runFolderName(runId: string): string {
  const problem = runIdProblem(runId);
  if (problem !== null)
    throw new CodedError('store/io', `${JSON.stringify(runId.slice(0, 160))} is not a run id: ${problem}`);
  const escaped = escapeRunId(runId);
  return escaped.length <= FOLDER_NAME_BYTES ? escaped : `%long-${createHash('sha256').update(runId).digest('hex')}`;
}

/** The folder of a run's files. @throws CodedError `store/io` for a text that is no run id */
export function runDir(stateDir: string, runId: string): string {
  return join(runsDir(stateDir), runFolderName(runId));
}

/** The contents of a run's writable mounts, and the state that was last copied back. */
export function mountsDir(stateDir: string, runId: string): string {
  return join(runDir(stateDir, runId), 'mounts');
}

/** Folders with unpacked uploads, each of one start of the run. */
export function findRunUploads(stateDir: string, runId: string): string {
  return join(runDir(stateDir, runId), 'uploads');
}

/** The disks of shared VMs after finished steps. */
export function findCheckpoints(stateDir: string, runId: string): string {
  return findCheckpointsIn(runDir(stateDir, runId));
}

/** Like `findCheckpoints`, by the folder of the run. */
export function findCheckpointsIn(runFolder: string): string {
  return join(runFolder, CHECKPOINTS);
}

/** Returns the folders of all runs for the disks of their shared VMs, whether they exist or not. */
export function listCheckpointFolders(stateDir: string): readonly string[] {
  try {
    return readdirSync(runsDir(stateDir)).map((name) => findCheckpointsIn(join(runsDir(stateDir), name)));
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  }
}

/** Makes a folder for its owner only, because runs contain the output of commands. */
export async function makePrivateDir(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
}
