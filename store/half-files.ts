/**
 * Names of files until they are whole: a writer gives the file its own name by a rename. A killed writer leaves half a
 * file, which is removed when the use of the folder ends. A running writer makes its file again.
 */
import { randomBytes } from 'node:crypto';
import { readdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { errnoOf } from '../files/errno.ts';

const SUFFIX = /\.[0-9a-f]{12}\.partial$/;

/** Returns a new name next to the file. */
export function nameHalfFile(path: string): string {
  return `${path}.${randomBytes(6).toString('hex')}.partial`;
}

/** Paths of half files in a folder. None if there is no such folder. A folder or a link with such a name is no writer's. */
export function listHalfFilesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile() && SUFFIX.test(entry.name))
      .map(({ name }) => join(folder, name));
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return [];
    throw error;
  }
}

/** Paths of the half files of one file. */
export function listHalfFilesOf(path: string): readonly string[] {
  const name = basename(path);
  return listHalfFilesIn(dirname(path)).filter((half) => basename(half).replace(SUFFIX, '') === name);
}

export function removeHalfFilesIn(folder: string): void {
  for (const path of listHalfFilesIn(folder)) rmSync(path, { force: true });
}

export function removeHalfFilesOf(path: string): void {
  for (const half of listHalfFilesOf(path)) rmSync(half, { force: true });
}
