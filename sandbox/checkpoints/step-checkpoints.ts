/**
 * Checkpoints of shared VMs in the folder of their run: `<scope>/<number>/` for the checkpoint and `<scope>/<number>.json`
 * for the attempts that it holds. A checkpoint counts once its file exists. For an item, `@` and the item follow the
 * scope.
 */
import { readdirSync } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskRoom } from '../../activities/ports/local-store.ts';
import {
  type SavedScope,
  STEP_CHECKPOINT_LIMITS,
  type StepCheckpoint,
  type StepCheckpoints,
} from '../../activities/ports/step-checkpoints.ts';
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import { formatInstance } from '../../domain/run/instance.ts';
import { aCount, aText, type Check, listOf, objectOf } from '../../domain/run/shape.ts';
import { formatBytes } from '../../domain/units/bytes.ts';
import { readFileWithin } from '../../files/open-file.ts';
import { deleteCheckpoint, readCheckpoint } from './folder.ts';

/** A plan has at most 2,000 stages, each with a name of 64. */
const RECORD_BYTES = 512 * 1024;
const RECORD = /^([1-9]\d{0,8})\.json$/;
const FOLDER = /^([1-9]\d{0,8})$/;

const checkRecord: Check = objectOf({
  v: (value, at) => (value === 1 ? null : `${at} is not 1`),
  number: aCount,
  id: aText,
  usedBytes: aCount,
  after: aText,
  generations: listOf(aCount),
  holds: listOf(objectOf({ stage: aText, attempt: aCount })),
});

export interface StepCheckpointsOptions {
  /** Returns the folder of a run for its checkpoints. */
  readonly folderOf: (runId: string) => string;
  readonly readRoom: () => DiskRoom;
  /** By default 2 GiB. */
  readonly runBytes?: number;
}

export function createStepCheckpoints(options: StepCheckpointsOptions): StepCheckpoints {
  const { folderOf, readRoom, runBytes = STEP_CHECKPOINT_LIMITS.runBytes } = options;
  const findScope = (scope: SavedScope): string => join(folderOf(scope.runId), nameScope(scope));
  return {
    list: (scope) => protect(findScope(scope), () => listWhole(findScope(scope))),
    findObstacle(diskBytes) {
      const { availableBytes, floorBytes } = readRoom();
      if (diskBytes !== null && diskBytes > runBytes)
        return `the disk of the VM uses ${formatBytes(diskBytes)}; the checkpoints of a run may use ${formatBytes(runBytes)}`;
      if (availableBytes - (diskBytes ?? 0) >= floorBytes) return null;
      return `the disk of the host is nearly full: ${formatBytes(availableBytes)} are free, and ${formatBytes(floorBytes)} must remain beyond the copy`;
    },
    prepare: (scope) =>
      protect(findScope(scope), async () => {
        const dir = findScope(scope);
        await mkdir(dir, { recursive: true, mode: 0o700 });
        const numbers = listNumbers(dir, RECORD);
        const counted = new Set(numbers);
        for (const name of listNames(dir))
          if (name.endsWith('.partial')) await rm(join(dir, name), { recursive: true, force: true });
        for (const number of listNumbers(dir, FOLDER))
          if (!counted.has(number)) await deleteCheckpoint(join(dir, String(number)));
        const number = Math.max(0, ...numbers) + 1;
        return { number, dir: join(dir, String(number)) };
      }),
    keep: (scope, checkpoint) =>
      protect(findScope(scope), async () => {
        await writeRecord(nameRecord(findScope(scope), checkpoint.number), checkpoint);
        await dropOldest(folderOf(scope.runId), findScope(scope), checkpoint.number, runBytes);
      }),
    update: (scope, checkpoint) =>
      protect(findScope(scope), () => writeRecord(nameRecord(findScope(scope), checkpoint.number), checkpoint)),
    delete: (scope, number) => protect(findScope(scope), () => deleteNumber(findScope(scope), number)),
    dropScope: (scope) => protect(findScope(scope), () => rm(findScope(scope), { recursive: true, force: true })),
    dropRun: (runId) => protect(folderOf(runId), () => rm(folderOf(runId), { recursive: true, force: true })),
  };
}

function nameScope({ scope, instance }: SavedScope): string {
  return instance.length === 0 ? scope : `${scope}@${formatInstance(instance)}`;
}

async function protect<T>(dir: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (isCodedError(error)) throw error;
    throw new CodedError('store/io', `the checkpoints in ${dir}: ${(error as Error).message}`, { cause: error });
  }
}

async function listWhole(dir: string): ReturnType<StepCheckpoints['list']> {
  const whole: (StepCheckpoint & { readonly dir: string })[] = [];
  const problems: string[] = [];
  for (const number of listNumbers(dir, RECORD).toSorted((a, b) => b - a)) {
    try {
      whole.push({ ...readWhole(dir, number), dir: join(dir, String(number)) });
    } catch (error) {
      problems.push(`checkpoint ${number} is damaged: ${(error as Error).message}`);
      await deleteNumber(dir, number);
    }
  }
  return { whole, problems };
}

/** @throws Error if the checkpoint is not whole */
function readWhole(dir: string, number: number): StepCheckpoint {
  const checkpoint = readRecord(dir, number);
  const { id } = readCheckpoint(join(dir, String(number)));
  if (id !== checkpoint.id) throw new Error('its two records name different checkpoints');
  return checkpoint;
}

function readRecord(dir: string, number: number): StepCheckpoint {
  const text = readFileWithin(nameRecord(dir, number), { roots: [dir], mostBytes: RECORD_BYTES }).toString();
  const value: unknown = JSON.parse(text);
  const problem = checkRecord(value, 'the record');
  if (problem !== null) throw new Error(problem);
  const { v: _version, ...checkpoint } = value as StepCheckpoint & { readonly v: 1 };
  if (checkpoint.number !== number) throw new Error(`the record is of checkpoint ${checkpoint.number}`);
  return checkpoint;
}

function nameRecord(dir: string, number: number): string {
  return join(dir, `${number}.json`);
}

/** The record goes first: a checkpoint without it does not count. */
async function deleteNumber(dir: string, number: number): Promise<void> {
  await rm(nameRecord(dir, number), { force: true });
  await deleteCheckpoint(join(dir, String(number)));
}

async function writeRecord(path: string, checkpoint: StepCheckpoint): Promise<void> {
  const partial = `${path}.partial`;
  const { number, id, usedBytes, after, generations, holds } = checkpoint;
  const file = await open(partial, 'w', 0o600);
  try {
    await file.writeFile(`${JSON.stringify({ v: 1, number, id, usedBytes, after, generations, holds })}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  // Without a sync of the folder: a checkpoint whose record a power cut takes does not count, and the one before it does.
  await rename(partial, path);
}

interface Kept {
  readonly dir: string;
  readonly number: number;
  readonly usedBytes: number;
  /** Milliseconds since the epoch. */
  readonly madeAtMs: number;
}

/** @param newest  the checkpoint that has just been made: it goes last, and only if it is too large itself */
async function dropOldest(runDir: string, dir: string, newest: number, runBytes: number): Promise<void> {
  const old = listNumbers(dir, RECORD).toSorted((a, b) => b - a);
  for (const number of old.slice(STEP_CHECKPOINT_LIMITS.perScope)) await deleteNumber(dir, number);
  const all = listKept(runDir).toSorted((a, b) => a.madeAtMs - b.madeAtMs);
  const isNewest = (kept: Kept): boolean => kept.dir === dir && kept.number === newest;
  const order = [...all.filter((kept) => !isNewest(kept)), ...all.filter(isNewest)];
  let totalBytes = all.reduce((sum, { usedBytes }) => sum + usedBytes, 0);
  for (const kept of order) {
    if (totalBytes <= runBytes) return;
    await deleteNumber(kept.dir, kept.number);
    totalBytes -= kept.usedBytes;
  }
}

function listKept(runDir: string): readonly Kept[] {
  return listNames(runDir).flatMap((name) => {
    const dir = join(runDir, name);
    return listNumbers(dir, RECORD).flatMap((number): readonly Kept[] => {
      try {
        const { usedBytes, createdAtMs } = readCheckpoint(join(dir, String(number)));
        return [{ dir, number, usedBytes, madeAtMs: createdAtMs }];
      } catch {
        // The VM that resumes from its scope reports the damage.
        return [{ dir, number, usedBytes: 0, madeAtMs: 0 }];
      }
    });
  });
}

function listNumbers(dir: string, pattern: RegExp): readonly number[] {
  return listNames(dir).flatMap((name) => {
    const match = pattern.exec(name);
    return match === null ? [] : [Number(match[1])];
  });
}

function listNames(dir: string): readonly string[] {
  try {
    return readdirSync(dir);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return [];
    throw error;
  }
}
