/**
 * Prepared sandboxes: checkpoints below the state folder that a user keeps. Each has a folder with its id as the name,
 * which appears and disappears by a rename.
 */
import { randomBytes } from 'node:crypto';
import { type Dirent, lstatSync, readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { CodedError } from '../domain/errors/coded-error.ts';
import {
  CHECKPOINT_RECORD,
  CHECKPOINT_RECORD_BYTES,
  type CheckpointRecord,
  isCheckpointId,
  parseCheckpoint,
} from '../domain/run/checkpoint.ts';
import { formatBytes } from '../domain/units/bytes.ts';
import { readFileWithin } from '../files/open-file.ts';
import { isAbandonedFolder } from '../files/partial-folder.ts';
import { removeFolder } from '../files/publish-folder.ts';
import { errnoOf } from '../files/errno.ts';
import { makePrivateDir } from './state-folder.ts';

export interface PreparedSandbox {
  readonly dir: string;
  readonly record: CheckpointRecord;
}

/** The prepared sandboxes of a state folder, oldest first. */
export interface PreparedList {
  readonly sandboxes: readonly PreparedSandbox[];
  readonly damaged: readonly DamagedSandbox[];
}

export interface DamagedSandbox {
  readonly id: string;
  readonly dir: string;
  readonly problem: string;
  /** The room that its files use on the host. */
  readonly usedBytes: number;
}

/** The prepared sandboxes of a state folder, and the limit for the room that all of them use. */
export interface PreparedPlace {
  readonly stateDir: string;
  readonly maxMib: number;
}

/** A folder that a killed writer has left. */
export interface PreparedRemains {
  readonly dir: string;
  readonly usedBytes: number;
}

/** The id digits that messages and lists show. */
const SHOWN_ID_DIGITS = 12;
/** The names that a message lists. */
const NAMES_SHOWN = 20;
const MIB = 1_048_576;
/** The unit of `blocks` in the facts of a file. */
const BLOCK_BYTES = 512;

export function locatePreparedSandboxes(stateDir: string): string {
  return join(stateDir, 'prepared');
}

/**
 * Returns the folder for a new prepared sandbox, and removes what killed writers have left.
 * @throws CodedError `store/io`
 */
export async function makePreparedPlace(stateDir: string): Promise<{ readonly id: string; readonly dir: string }> {
  const folder = locatePreparedSandboxes(stateDir);
  const id = randomBytes(32).toString('hex');
  try {
    await makePrivateDir(folder);
    await removePreparedRemains(stateDir, Date.now());
    return { id, dir: join(folder, id) };
  } catch (error) {
    throw new CodedError('store/io', `cannot use ${folder}: ${(error as Error).message}`, { cause: error });
  }
}

/** Finds the folders that killed writers have left. @throws CodedError `store/io` */
export function listPreparedRemains(stateDir: string, nowMs: number): readonly PreparedRemains[] {
  const folder = locatePreparedSandboxes(stateDir);
  return readEntries(folder).flatMap(({ name }) => {
    const dir = join(folder, name);
    const found = lstatSync(dir, { throwIfNoEntry: false });
    if (found === undefined || !isAbandonedFolder(name, found.mtimeMs, nowMs)) return [];
    return [{ dir, usedBytes: measureFolder(dir) }];
  });
}

/** Removes the folders that killed writers have left. */
export async function removePreparedRemains(stateDir: string, nowMs: number): Promise<readonly PreparedRemains[]> {
  const remains = listPreparedRemains(stateDir, nowMs);
  for (const { dir } of remains) await rm(dir, { recursive: true, force: true });
  return remains;
}

function measureFolder(dir: string): number {
  const sizes = readEntries(dir).map(({ name }) => lstatSync(join(dir, name), { throwIfNoEntry: false })?.blocks ?? 0);
  return sizes.reduce((sum, blocks) => sum + blocks * BLOCK_BYTES, 0);
}

export function listPreparedSandboxes(stateDir: string): PreparedList {
  const folder = locatePreparedSandboxes(stateDir);
  const sandboxes: PreparedSandbox[] = [];
  const damaged: DamagedSandbox[] = [];
  for (const { name } of readEntries(folder)) {
    if (!isCheckpointId(name)) continue;
    const dir = join(folder, name);
    const record = readRecord(dir);
    if (typeof record !== 'string') sandboxes.push({ dir, record });
    // Another process deleted it since the folder was read.
    else if (lstatSync(dir, { throwIfNoEntry: false }) !== undefined) {
      damaged.push({ id: name, dir, problem: record, usedBytes: measureFolder(dir) });
    }
  }
  return { sandboxes: sandboxes.sort((a, b) => compareAge(a.record, b.record)), damaged };
}

/** The room that prepared sandboxes use, with damaged ones. */
export function sumPrepared({ sandboxes, damaged }: PreparedList): number {
  const sizes = [...sandboxes.map(({ record }) => record.usedBytes), ...damaged.map(({ usedBytes }) => usedBytes)];
  return sizes.reduce((sum, usedBytes) => sum + usedBytes, 0);
}

/** Orders records by their time, then by their id, so that all processes agree which of two is older. */
export function compareAge(a: CheckpointRecord, b: CheckpointRecord): number {
  return a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1);
}

function readRecord(dir: string): CheckpointRecord | string {
  try {
    const rule = { roots: [dir], mostBytes: CHECKPOINT_RECORD_BYTES };
    return parseCheckpoint(readFileWithin(join(dir, CHECKPOINT_RECORD), rule).toString());
  } catch (error) {
    return (error as Error).message;
  }
}

function readEntries(folder: string): readonly Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw new CodedError('store/io', `cannot read ${folder}: ${(error as Error).message}`, { cause: error });
  }
}

/**
 * Finds a prepared sandbox by its name or by the beginning of its id. A name has precedence.
 * @returns a text that names the prepared sandboxes if there is not exactly one
 */
export function findPreparedSandbox(stateDir: string, text: string): PreparedSandbox | string {
  const { sandboxes } = listPreparedSandboxes(stateDir);
  const named = sandboxes.findLast(({ record }) => record.name === text);
  if (named !== undefined) return named;
  const matches = text === '' ? [] : sandboxes.filter(({ record }) => record.id.startsWith(text));
  if (matches.length === 1) return matches[0]!;
  if (matches.length > 1)
    return `${JSON.stringify(text)} is the beginning of the id of ${matches.length} prepared sandboxes: ${listNames(matches)}`;
  const known =
    sandboxes.length === 0 ? 'this state folder has no prepared sandboxes' : `there are ${listNames(sandboxes)}`;
  return `there is no prepared sandbox ${JSON.stringify(text)} here; ${known}`;
}

/** The names of prepared sandboxes for a message. */
export function listNames(sandboxes: readonly PreparedSandbox[]): string {
  const names = sandboxes.slice(0, NAMES_SHOWN).map(({ record }) => describePrepared(record));
  const left = sandboxes.length - names.length;
  return names.join(', ') + (left === 0 ? '' : ` and ${left} more`);
}

/** The name for messages: the name of the user, or the beginning of the id. */
export function describePrepared({ id, name }: Pick<CheckpointRecord, 'id' | 'name'>): string {
  const shown = id.slice(0, SHOWN_ID_DIGITS);
  return name === undefined ? shown : `${name} (${shown})`;
}

/**
 * Refuses a prepared sandbox before its disk is copied, if the others leave it no room.
 * @param replaced  the name of those that the new one replaces; null: it replaces none
 * @throws CodedError `vm/checkpoint-limit`
 */
export function refuseFullPlace({ stateDir, maxMib }: PreparedPlace, replaced: string | null): void {
  const others = findOthers(stateDir, ({ name }) => replaced !== null && name === replaced);
  if (sumPrepared(others) >= maxMib * MIB) throw createLimitError(others, null, maxMib);
}

/**
 * Keeps all prepared sandboxes within their limit: a new one that exceeds it is deleted and refused. The size of a copy
 * is known only after it was made. Each of two makers counts the other one.
 * @throws CodedError `vm/checkpoint-limit`
 */
export async function claimPreparedRoom(
  { stateDir, maxMib }: PreparedPlace,
  record: CheckpointRecord,
  replace: boolean,
): Promise<void> {
  const others = findOthers(
    stateDir,
    ({ id, name }) => id === record.id || (replace && name !== undefined && name === record.name),
  );
  if (sumPrepared(others) + record.usedBytes <= maxMib * MIB) return;
  await deletePreparedSandbox(join(locatePreparedSandboxes(stateDir), record.id));
  throw createLimitError(others, record, maxMib);
}

function findOthers(stateDir: string, isLeftOut: (record: CheckpointRecord) => boolean): PreparedList {
  const { sandboxes, damaged } = listPreparedSandboxes(stateDir);
  return { sandboxes: sandboxes.filter(({ record }) => !isLeftOut(record)), damaged };
}

/** @param record  the new one or the most of a merge; null: the size is not known yet */
function createLimitError(
  others: PreparedList,
  record: Pick<CheckpointRecord, 'usedBytes'> | null,
  maxMib: number,
): CodedError {
  const size = record === null ? 'it' : `its disk of ${formatBytes(record.usedBytes)}`;
  const used = `the other prepared sandboxes use ${formatBytes(sumPrepared(others))} of at most ${formatBytes(maxMib * MIB)}`;
  const largest = others.sandboxes.toSorted((a, b) => b.record.usedBytes - a.record.usedBytes);
  const [first] = largest;
  const remedies = [
    ...(first === undefined
      ? []
      : [
          `delete some, largest first: ${listNames(largest)}: voidbox snapshot delete ${first.record.id.slice(0, SHOWN_ID_DIGITS)} …`,
        ]),
    ...(others.damaged.length === 0 ? [] : ['delete the damaged ones that `voidbox snapshot list` names']),
    'raise VOIDBOX_PREPARED_MAX_MB',
  ];
  return new CodedError('vm/checkpoint-limit', `there is no room for ${size}: ${used}; ${remedies.join(', or ')}`);
}

/** Returns the file that the maker of a prepared sandbox of this name locks. */
export function locateNameLock(stateDir: string, name: string): string {
  return join(stateDir, 'prepared-names', name);
}

/** Returns the file that a merge locks. Only one runs in a state folder, so two never count on the same room. */
export function locateMergeLock(stateDir: string): string {
  return join(stateDir, 'prepared-merge.lock');
}

/**
 * Refuses a merge if its result would exceed the limit while the old chain still exists.
 * @throws CodedError `vm/checkpoint-limit`
 */
export function claimMergeRoom({ stateDir, maxMib }: PreparedPlace, mostBytes: number): void {
  const all = listPreparedSandboxes(stateDir);
  if (sumPrepared(all) + mostBytes > maxMib * MIB) throw createLimitError(all, { usedBytes: mostBytes }, maxMib);
}

/** Keeps the name of a new prepared sandbox unique. Its maker has locked the name. */
export async function deleteOthersOfName(stateDir: string, record: CheckpointRecord): Promise<void> {
  if (record.name === undefined) return;
  const { sandboxes } = listPreparedSandboxes(stateDir);
  const others = sandboxes.filter((other) => other.record.name === record.name && other.record.id !== record.id);
  for (const { dir } of others) await deletePreparedSandbox(dir);
}

/** @throws CodedError `vm/checkpoint-exists` if a prepared sandbox has the name */
export function refuseUsedName(stateDir: string, name: string): void {
  const used = listPreparedSandboxes(stateDir).sandboxes.find(({ record }) => record.name === name);
  if (used !== undefined) throw createNameError(used.record);
}

function createNameError(record: CheckpointRecord): CodedError {
  return new CodedError(
    'vm/checkpoint-exists',
    `there is a prepared sandbox ${describePrepared(record)} of ${new Date(record.createdAtMs).toISOString()}`,
  );
}

/** Deletes a prepared sandbox, also while VMs that started from it run. Idempotent. @throws CodedError `store/io` */
export async function deletePreparedSandbox(dir: string): Promise<void> {
  try {
    await removeFolder(dir);
  } catch (error) {
    throw new CodedError('store/io', `cannot delete ${dir}: ${(error as Error).message}`, { cause: error });
  }
}
