/** Folders that appear and disappear by a rename, so that a folder with its name is whole. */
import { existsSync } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { namePartialFolder } from './partial-folder.ts';

/**
 * Makes a folder with the mode 0700. `fill` writes its files at another path, and syncs them.
 * @throws Error if the folder exists, Error of `node:fs`, or the error of `fill`; nothing is left then
 */
export async function publishFolder<T>(dir: string, fill: (partial: string) => Promise<T>): Promise<T> {
  const partial = namePartialFolder(dir);
  try {
    refuseExisting(dir);
    await mkdir(partial, { mode: 0o700 });
    const filled = await fill(partial);
    await syncFolder(partial);
    refuseExisting(dir);
    await rename(partial, dir);
    await syncFolder(dirname(dir));
    return filled;
  } catch (error) {
    await rm(partial, { recursive: true, force: true }).catch(() => undefined);
    throw error;
  }
}

/** A rename would replace an empty folder of this name. */
function refuseExisting(dir: string): void {
  if (existsSync(dir)) throw new Error('the folder exists');
}

/** Removes a folder: a reader finds all of it or nothing. Idempotent. @throws Error of `node:fs` */
export async function removeFolder(dir: string): Promise<void> {
  const partial = namePartialFolder(dir);
  try {
    await rename(dir, partial);
    await rm(partial, { recursive: true, force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/** Writes the names in a folder to the disk. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
