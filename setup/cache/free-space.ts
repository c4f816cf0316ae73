/** Measures the free space that the disk of a folder has for this user. */
import { statfsSync, type StatsFs } from 'node:fs';
import { dirname } from 'node:path';

export interface FreeSpace {
  readonly availableBytes: number;
  readonly sizeBytes: number;
}

/** Measures at a path, or at the folder in which the path will be made. */
export function freeSpaceAt(path: string): FreeSpace {
  const { bavail, blocks, bsize } = statfsAt(path);
  return { availableBytes: bavail * bsize, sizeBytes: blocks * bsize };
}

/** With less, a download or a disk image cannot be completed. */
const LEAST_FREE_BYTES = 1_048_576;

export function hasNoSpace(path: string): boolean {
  return freeSpaceAt(path).availableBytes < LEAST_FREE_BYTES;
}

/** Returns the reason to end a program that would otherwise retry for ever; null while the disk has space. */
export function reasonOfFullDisk(path: string): Promise<string | null> {
  return Promise.resolve(hasNoSpace(path) ? 'no space left on device' : null);
}

function statfsAt(path: string): StatsFs {
  try {
    return statfsSync(path);
  } catch (error) {
    const isThere = !['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');
    if (isThere || dirname(path) === path) throw error;
    return statfsAt(dirname(path));
  }
}
