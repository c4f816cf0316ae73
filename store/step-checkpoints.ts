/** Reads which checkpoints of shared VMs a run of this host keeps. Deletes nothing, so that a command may read them at any time. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { CHECKPOINT_RECORD, CHECKPOINT_RECORD_BYTES } from '../domain/run/checkpoint.ts';
import {
  listStepNumbers,
  nameStepRecord,
  parseWholeCheckpoint,
  STEP_CHECKPOINT_BYTES,
  type StepCheckpoint,
} from '../domain/run/step-checkpoint.ts';
import { readFileWithin } from '../files/open-file.ts';
import { errnoOf } from '../files/errno.ts';
import { findCheckpoints } from './state-folder.ts';

/** Returns the checkpoints of a scope of the run itself, the newest first, without damaged ones. */
export function readStepCheckpoints(stateDir: string, runId: string, scope: string): readonly StepCheckpoint[] {
  const dir = join(findCheckpoints(stateDir, runId), scope);
  return listStepNumbers(listNames(dir)).flatMap((number) => {
    const checkpoint = readWhole(dir, number);
    return checkpoint === null ? [] : [checkpoint];
  });
}

function readWhole(dir: string, number: number): StepCheckpoint | null {
  try {
    const record = read(join(dir, nameStepRecord(number)), dir, STEP_CHECKPOINT_BYTES);
    const disk = read(join(dir, String(number), CHECKPOINT_RECORD), dir, CHECKPOINT_RECORD_BYTES);
    return parseWholeCheckpoint({ record, disk }, number);
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
