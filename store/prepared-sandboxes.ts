/**
 * Prepared sandboxes: checkpoints below the state folder that a user keeps. Each has a folder with its id as the name,
 * which appears and disappears by a rename.
 */
import { randomBytes } from 'node:crypto';
import { type Dirent, lstatSync, readdirSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { CodedError } from '../domain/errors/coded-error.ts';
import {
  CHECKPOINT_RECORD,
  CHECKPOINT_RECORD_BYTES,
  type CheckpointRecord,
  isCheckpointId,
  parseCheckpoint,
} from '../domain/run/checkpoint.ts';
import { readFileWithin } from '../files/open-file.ts';
import { errnoOf } from './errno.ts';
import { makePrivateDir } from './state-folder.ts';

export interface PreparedSandbox {
  readonly dir: string;
  readonly record: CheckpointRecord;
}

/** The prepared sandboxes of a state folder, oldest first. */
export interface PreparedList {
  readonly sandboxes: readonly PreparedSandbox[];
  readonly damaged: readonly { readonly dir: string; readonly problem: string }[];
}

/** The id digits that messages and lists show. */
const SHOWN_ID_DIGITS = 12;
/** The names that a message lists. */
const NAMES_SHOWN = 20;
/** The age at which a partial folder has no writer: a checkpoint ends within ten minutes. */
const STALE_MS = 60 * 60_000;

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
    for (const { name } of readEntries(folder)) {
      const path = join(folder, name);
      const found = lstatSync(path, { throwIfNoEntry: false });
      if (name.endsWith('.partial') && found !== undefined && Date.now() - found.mtimeMs > STALE_MS)
        await rm(path, { recursive: true, force: true });
    }
    return { id, dir: join(folder, id) };
  } catch (error) {
    throw new CodedError('store/io', `cannot use ${folder}: ${(error as Error).message}`, { cause: error });
  }
}

export function listPreparedSandboxes(stateDir: string): PreparedList {
  const folder = locatePreparedSandboxes(stateDir);
  const sandboxes: PreparedSandbox[] = [];
  const damaged: { dir: string; problem: string }[] = [];
  for (const { name } of readEntries(folder)) {
    if (!isCheckpointId(name)) continue;
    const dir = join(folder, name);
    const record = readRecord(dir);
    if (typeof record !== 'string') sandboxes.push({ dir, record });
    // Another process deleted it since the folder was read.
    else if (lstatSync(dir, { throwIfNoEntry: false }) !== undefined) damaged.push({ dir, problem: record });
  }
  return { sandboxes: sandboxes.sort((a, b) => compareAge(a.record, b.record)), damaged };
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

function listNames(sandboxes: readonly PreparedSandbox[]): string {
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
 * Keeps the name of a new prepared sandbox unique.
 * @param replace  whether older ones of the name are deleted; otherwise the new one is deleted and refused
 * @throws CodedError `vm/checkpoint-exists` if the name is used
 */
export async function claimPreparedName(stateDir: string, record: CheckpointRecord, replace: boolean): Promise<void> {
  if (record.name === undefined) return;
  const { sandboxes } = listPreparedSandboxes(stateDir);
  const older = sandboxes.filter(
    (other) =>
      other.record.name === record.name && other.record.id !== record.id && compareAge(other.record, record) < 0,
  );
  if (replace) {
    for (const { dir } of older) await deletePreparedSandbox(dir);
  } else if (older.length > 0) {
    await deletePreparedSandbox(join(locatePreparedSandboxes(stateDir), record.id));
    throw createNameError(older[0]!.record);
  }
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
  const partial = `${dir}.${randomBytes(6).toString('hex')}.partial`;
  try {
    await rename(dir, partial);
    await rm(partial, { recursive: true, force: true });
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return;
    throw new CodedError('store/io', `cannot delete ${dir}: ${(error as Error).message}`, { cause: error });
  }
}
