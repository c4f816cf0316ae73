/** Small JSON files of a run, each replaced as a whole. */
import {
  closeSync,
  existsSync,
  fsync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import type { Durability } from './durability.ts';
import { createDamageError, runFileFailure } from './damage.ts';
import { type DurableFolders, createStoreFailure, syncDir } from './layout.ts';
import { errnoOf } from '../../files/errno.ts';
import { nameHalfFile } from '../half-files.ts';

const sync = promisify(fsync);

/** The end of a run removes half files once, and an activity that writes the end again does so again. More removals in a row are a fault. */
const MOST_TRIES = 3;

/** Replaces the file, or makes it. */
export async function writeJson(
  folders: DurableFolders,
  path: string,
  value: unknown,
  durability: Durability = 'power',
): Promise<void> {
  const both = { bytes: durability, name: durability };
  await writeThenPlace(folders, path, value, both, (partial) => renameSync(partial, path));
}

/**
 * A link fails if the name exists, so of several writers one wins, and no reader finds a file without its bytes.
 * @param name  what the name survives; the bytes survive a power cut if the name does
 * @returns false if there is a file with that name
 */
export async function createJson(
  folders: DurableFolders,
  path: string,
  value: unknown,
  name: Durability = 'power',
): Promise<boolean> {
  if (statSync(path, { throwIfNoEntry: false }) !== undefined) return false;
  let isMade = true;
  await writeThenPlace(folders, path, value, { bytes: 'power', name }, (partial) => {
    try {
      linkSync(partial, path);
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error;
      isMade = false;
    } finally {
      rmSync(partial, { force: true });
    }
  });
  return isMade;
}

/**
 * Only waiting for the disk goes through the thread pool: the other calls end in the page cache within microseconds,
 * and a trip to the pool costs a hundred.
 */
async function writeThenPlace(
  folders: DurableFolders,
  path: string,
  value: unknown,
  durability: Readonly<Record<'bytes' | 'name', Durability>>,
  place: (partial: string) => void,
): Promise<void> {
  const text = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`record ${path}: a value that JSON cannot say`);
  const folder = dirname(path);
  for (let tries = 1; ; tries++) {
    const partial = nameHalfFile(path);
    try {
      folders.makeNow(folder);
      const lasts = durability.name === 'power';
      await Promise.all([lasts ? folders.settle(folder) : undefined, writeHalfFile(partial, text, durability.bytes)]);
      place(partial);
      if (lasts) await syncDir(folder);
      return;
    } catch (error) {
      // The end of the run has removed it.
      if (errnoOf(error) === 'ENOENT' && tries < MOST_TRIES && existsSync(folder)) continue;
      rmSync(partial, { force: true });
      throw runFileFailure('cannot write', path, error);
    }
  }
}

async function writeHalfFile(partial: string, text: string, durability: Durability): Promise<void> {
  const fd = openSync(partial, 'wx', 0o600);
  try {
    writeFileSync(fd, text);
    if (durability === 'power') await sync(fd);
  } finally {
    closeSync(fd);
  }
}

/** False for a file that is not there. */
export function isEmptyFile(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  return found?.isFile() === true && found.size === 0;
}

/** Null for a file that does not exist; the content of a file is never null. */
export function readJson(path: string): unknown {
  let text: string;
  try {
    if (!statSync(path).isFile()) throw createDamageError(path, 'it is not a file');
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null;
    throw runFileFailure('cannot read', path, error);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw createDamageError(path, 'it is not JSON', error);
  }
  if (value === null) throw createDamageError(path, 'it holds nothing');
  return value;
}

export async function removeFile(path: string): Promise<void> {
  try {
    await rm(path, { force: true });
  } catch (error) {
    throw createStoreFailure('cannot remove', path, error);
  }
}
