/** Reads which checkpoints of shared VMs a run of this host keeps. Deletes nothing, so that a command may read them at any time. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { CHECKPOINT_RECORD, CHECKPOINT_RECORD_BYTES, parseCheckpoint } from '../domain/run/checkpoint.ts';
import { parseStepCheckpoint, STEP_CHECKPOINT_BYTES, type StepCheckpoint } from '../domain/run/step-checkpoint.ts';
import { readFileWithin } from '../files/open-file.ts';
import { errnoOf } from './errno.ts';
import { findCheckpoints } from './state-folder.ts';

/** Returns the checkpoints of a scope of the run itself, the newest first, without damaged ones. */
export function readStepCheckpoints(stateDir: string, runId: string, scope: string): readonly StepCheckpoint[] {
  const dir = join(findCheckpoints(stateDir, runId), scope);
  return listNames(dir)
    .flatMap((name) => {
      const number = /^([1-9]\d{0,8})\.json$/.exec(name)?.[1];
      const checkpoint = number === undefined ? null : readWhole(dir, Number(number));
      return checkpoint === null ? [] : [checkpoint];
    })
    .toSorted((a, b) => b.number - a.number);
}

function readWhole(dir: string, number: number): StepCheckpoint | null {
  try {
    const checkpoint = parseStepCheckpoint(read(join(dir, `${number}.json`), dir, STEP_CHECKPOINT_BYTES), number);
    const disk = parseCheckpoint(read(join(dir, String(number), CHECKPOINT_RECORD), dir, CHECKPOINT_RECORD_BYTES));
    return typeof disk !== 'string' && disk.id === checkpoint.id ? checkpoint : null;
  } catch {
    // The admission of a run that would use it names the damage.
    return null;
  }
}

function read(path: string, root: string, mostBytes: number): string {
  return readFileWithin(path, { roots: [root], mostBytes }).toString();
}

function listNames(dir: string): readonly string[] {
  try {
    return readdirSync(dir);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return [];
    throw error;
  }
}
