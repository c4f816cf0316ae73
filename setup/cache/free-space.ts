/** How much free space the disk of a folder has for this user. */
import { statfsSync, type StatsFs } from 'node:fs';
import { dirname } from 'node:path';

export interface FreeSpace {
  readonly availableBytes: number;
  readonly sizeBytes: number;
}

/** At a path, or at the folder that it will be made in. */
export function freeSpaceAt(path: string): FreeSpace {
  const { bavail, blocks, bsize } = statfsAt(path);
  return { availableBytes: bavail * bsize, sizeBytes: blocks * bsize };
}

/** With less, a download or a disk cannot go on. */
const LEAST_FREE_BYTES = 1_048_576;

export function hasNoSpace(path: string): boolean {
  return freeSpaceAt(path).availableBytes < LEAST_FREE_BYTES;
}

/** For programs that go on trying: why they are to be ended; null while there is space. */
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
