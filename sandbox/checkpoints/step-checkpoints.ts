/**
 * Checkpoints of shared VMs in the folder of their run: `<scope>/<number>/` for the checkpoint and `<scope>/<number>.json`
 * for the attempts that it holds. A checkpoint counts once its file exists. For an item, `@` and the item follow the
 * scope. `.ended` is there once the run has ended.
 */
import { readdirSync, statSync } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { DiskRoom } from '../../activities/ports/local-store.ts';
import {
  type SavedScope,
  STEP_CHECKPOINT_LIMITS,
  type StepCheckpoints,
  type TakenCheckpoint,
} from '../../activities/ports/step-checkpoints.ts';
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import { formatInstance } from '../../domain/run/instance.ts';
import { CHECKPOINT_DISK, CHECKPOINT_RECORD, CHECKPOINT_RECORD_BYTES } from '../../domain/run/checkpoint.ts';
import {
  formatStepCheckpoint,
  listStepNumbers,
  nameStepRecord,
  parseStepCheckpoint,
  parseWholeCheckpoint,
  STEP_CHECKPOINT_BYTES,
  type StepCheckpoint,
} from '../../domain/run/step-checkpoint.ts';
import { formatBytes } from '../../domain/units/bytes.ts';
import { readFileWithin } from '../../files/open-file.ts';
import { deleteCheckpoint, linkCheckpoint, readCheckpoint } from './folder.ts';

const FOLDER = /^[1-9]\d{0,8}$/;
/** No scope has this name. */
const ENDED = '.ended';
/** Separates the scope from its item. */
const ITEM_MARK = '@';

export interface StepCheckpointsOptions {
  /** Returns the folder of a run for its checkpoints. */
  readonly folderOf: (runId: string) => string;
  /** Returns the folders of all runs for their checkpoints, whether they exist or not. */
  readonly listFolders: () => readonly string[];
  readonly readRoom: () => DiskRoom;
  /** By default 2 GiB. */
  readonly runBytes?: number;
  /** By default 4 GiB. */
  readonly endedBytes?: number;
}

export function createStepCheckpoints(options: StepCheckpointsOptions): StepCheckpoints {
  const { folderOf, listFolders, readRoom, runBytes = STEP_CHECKPOINT_LIMITS.runBytes } = options;
  const { endedBytes = STEP_CHECKPOINT_LIMITS.endedBytes } = options;
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
        // A run that makes checkpoints continues, so the limit of runs that have ended must not delete them.
        await rm(join(folderOf(scope.runId), ENDED), { force: true });
        await mkdir(dir, { recursive: true, mode: 0o700 });
        const names = listNames(dir);
        const [newest = 0, ...others] = listStepNumbers(names);
        const counted = new Set([newest, ...others]);
        for (const name of names)
          if (name.endsWith('.partial')) await rm(join(dir, name), { recursive: true, force: true });
        for (const name of names)
          if (FOLDER.test(name) && !counted.has(Number(name))) await deleteCheckpoint(join(dir, name));
        const number = newest + 1;
        return { number, dir: join(dir, String(number)) };
      }),
    keep: (scope, checkpoint) =>
      protect(findScope(scope), async () => {
        await writeRecord(nameRecord(findScope(scope), checkpoint.number), checkpoint);
        await dropSuperfluous(findScope(scope), isOfItem(scope));
        await dropOldest(folderOf(scope.runId), findScope(scope), checkpoint.number, runBytes);
      }),
    update: (scope, checkpoint) =>
      protect(findScope(scope), () => writeRecord(nameRecord(findScope(scope), checkpoint.number), checkpoint)),
    delete: (scope, number) => protect(findScope(scope), () => deleteNumber(findScope(scope), number)),
    dropScope: (scope) => protect(findScope(scope), () => rm(findScope(scope), { recursive: true, force: true })),
    takeOver: (source, scope, taken) =>
      protect(findScope(scope), () => takeOver(findScope(source), findScope(scope), taken)),
    endRun: (runId) =>
      protect(folderOf(runId), async () => {
        const dir = folderOf(runId);
        for (const name of listNames(dir))
          if (name.includes(ITEM_MARK)) await rm(join(dir, name), { recursive: true, force: true });
        if (listKept(dir).length === 0 || readRoom().isLow) return await deleteRun(dir);
        // The time of an earlier mark stays.
        await (await open(join(dir, ENDED), 'a', 0o600)).close();
        await dropEnded(listFolders(), (totalBytes) => totalBytes > endedBytes);
      }),
    makeRoom: () => protect('the runs that have ended', () => dropEnded(listFolders(), () => readRoom().isLow)),
    dropRun: (runId) => protect(folderOf(runId), () => deleteRun(folderOf(runId))),
  };
}

function nameScope({ scope, instance }: SavedScope): string {
  return instance.length === 0 ? scope : `${scope}${ITEM_MARK}${formatInstance(instance)}`;
}

function isOfItem({ instance }: SavedScope): boolean {
  return instance.length > 0;
}

async function takeOver(from: string, dir: string, taken: readonly TakenCheckpoint[]): Promise<string | null> {
  // An earlier try of the same admission may have left some.
  await rm(dir, { recursive: true, force: true });
  await mkdir(dir, { recursive: true, mode: 0o700 });
  let reason: string | null = 'none is named';
  let number = 1;
  for (const each of taken.toReversed()) {
    reason = await takeOverOne(from, each, join(dir, String(number)));
    if (reason === null) number += 1;
  }
  if (reason !== null) await rm(dir, { recursive: true, force: true });
  return reason;
}

/** Returns the reason why it cannot be taken over; null: it was taken over. */
async function takeOverOne(from: string, { number, holds }: TakenCheckpoint, to: string): Promise<string | null> {
  try {
    const checkpoint = readWhole(from, number);
    await linkCheckpoint(join(from, String(number)), to);
    const own = { ...checkpoint, number: Number(basename(to)), generations: [], holds };
    await writeRecord(nameRecord(dirname(to), own.number), own);
    return null;
  } catch (error) {
    return `the checkpoint ${from}/${number} cannot be taken over: ${(error as Error).message}`;
  }
}

/** Returns when the run ended, in milliseconds since the epoch; null: it has not ended, or has no checkpoints. */
function findEnd(dir: string): number | null {
  return statSync(join(dir, ENDED), { throwIfNoEntry: false })?.mtimeMs ?? null;
}

/**
 * Deletes the checkpoints of whole runs, those of the run that ended first before others. A disk to which several of the
 * runs have a link counts once, and until the last of them is deleted.
 */
async function dropEnded(folders: readonly string[], isTooMuch: (totalBytes: number) => boolean): Promise<void> {
  const ended = folders
    .flatMap((dir) => {
      const endedAtMs = findEnd(dir);
      return endedAtMs === null ? [] : [{ dir, endedAtMs, kept: listKept(dir) }];
    })
    .toSorted((a, b) => a.endedAtMs - b.endedAtMs);
  const lastOwners = new Map(ended.flatMap(({ dir, kept }) => kept.map(({ disk }) => [disk, dir] as const)));
  const rooms = ended.map(({ dir, kept }) => ({
    dir,
    usedBytes: sumUsed(kept.filter(({ disk }) => lastOwners.get(disk) === dir)),
  }));
  let totalBytes = sumUsed(rooms);
  for (const { dir, usedBytes } of rooms) {
    if (!isTooMuch(totalBytes)) return;
    await deleteRun(dir);
    totalBytes -= usedBytes;
  }
}

function sumUsed(rooms: readonly { readonly usedBytes: number }[]): number {
  return rooms.reduce((sum, { usedBytes }) => sum + usedBytes, 0);
}

/** The mark goes last: a run whose removal was interrupted still counts as ended. */
async function deleteRun(dir: string): Promise<void> {
  for (const name of listNames(dir)) if (name !== ENDED) await rm(join(dir, name), { recursive: true, force: true });
  await rm(dir, { recursive: true, force: true });
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
  for (const number of listStepNumbers(listNames(dir))) {
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
  const disk = read(join(dir, String(number), CHECKPOINT_RECORD), dir, CHECKPOINT_RECORD_BYTES);
  return parseWholeCheckpoint({ record: readRecord(dir, number), disk }, number);
}

function readRecord(dir: string, number: number): string {
  return read(nameRecord(dir, number), dir, STEP_CHECKPOINT_BYTES);
}

function read(path: string, root: string, mostBytes: number): string {
  return readFileWithin(path, { roots: [root], mostBytes }).toString();
}

function nameRecord(dir: string, number: number): string {
  return join(dir, nameStepRecord(number));
}

/** The record goes first: a checkpoint without it does not count. */
async function deleteNumber(dir: string, number: number): Promise<void> {
  await rm(nameRecord(dir, number), { force: true });
  await deleteCheckpoint(join(dir, String(number)));
}

async function writeRecord(path: string, checkpoint: StepCheckpoint): Promise<void> {
  const partial = `${path}.partial`;
  const file = await open(partial, 'w', 0o600);
  try {
    await file.writeFile(formatStepCheckpoint(checkpoint));
    await file.sync();
  } finally {
    await file.close();
  }
  // Without a sync of the folder: a checkpoint whose record a power cut takes does not count, and the one before it does.
  await rename(partial, path);
}

/**
 * Deletes those that are neither among the newest of the scope nor the newest after their step. Only a run of its own, and
 * no item, may be retried from an earlier step.
 */
async function dropSuperfluous(dir: string, isItem: boolean): Promise<void> {
  const { newest, perScope } = STEP_CHECKPOINT_LIMITS;
  const numbers = listStepNumbers(listNames(dir));
  const steps = new Set<string | null>([null]);
  let kept = 0;
  for (const [index, number] of numbers.entries()) {
    const after = readAfter(dir, number);
    const isKept = index < newest || (!isItem && kept < perScope && !steps.has(after));
    steps.add(after);
    if (isKept) kept += 1;
    else await deleteNumber(dir, number);
  }
}

/** Null: its record is damaged. */
function readAfter(dir: string, number: number): string | null {
  try {
    return parseStepCheckpoint(readRecord(dir, number), number).after;
  } catch {
    return null;
  }
}

interface Kept {
  readonly dir: string;
  readonly number: number;
  readonly usedBytes: number;
  /** Milliseconds since the epoch. */
  readonly madeAtMs: number;
  /** Identifies the file of its disk. */
  readonly disk: string;
  /** The next VM of a lost one may begin with it. */
  readonly isAmongNewest: boolean;
}

/** @param newest  the checkpoint that has just been made: it goes last, and only if it is too large itself */
async function dropOldest(runDir: string, dir: string, newest: number, runBytes: number): Promise<void> {
  const all = listKept(runDir).toSorted(
    (a, b) => Number(a.isAmongNewest) - Number(b.isAmongNewest) || a.madeAtMs - b.madeAtMs,
  );
  const isNewest = (kept: Kept): boolean => kept.dir === dir && kept.number === newest;
  const order = [...all.filter((kept) => !isNewest(kept)), ...all.filter(isNewest)];
  let totalBytes = sumUsed(all);
  for (const kept of order) {
    if (totalBytes <= runBytes) return;
    await deleteNumber(kept.dir, kept.number);
    totalBytes -= kept.usedBytes;
  }
}

function listKept(runDir: string): readonly Kept[] {
  return listNames(runDir).flatMap((name) => {
    const dir = join(runDir, name);
    return listStepNumbers(listNames(dir)).map((number, index): Kept => {
      const isAmongNewest = index < STEP_CHECKPOINT_LIMITS.newest;
      const own = join(dir, String(number));
      try {
        const { usedBytes, createdAtMs } = readCheckpoint(own);
        return { dir, number, usedBytes, madeAtMs: createdAtMs, disk: identifyDisk(own), isAmongNewest };
      } catch {
        // The VM that resumes from its scope reports the damage.
        return { dir, number, usedBytes: 0, madeAtMs: 0, disk: own, isAmongNewest };
      }
    });
  });
}

/** Links to one file, which a retry and its earlier run may have, get the same text. */
function identifyDisk(dir: string): string {
  const { dev, ino } = statSync(join(dir, CHECKPOINT_DISK), { bigint: true });
  return `${dev}:${ino}`;
}

function listNames(dir: string): readonly string[] {
  try {
    return readdirSync(dir);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return [];
    throw error;
  }
}
