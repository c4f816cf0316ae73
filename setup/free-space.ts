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

function statfsAt(path: string): StatsFs {
  try {
    return statfsSync(path);
  } catch (error) {
    const isThere = !['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');
    if (isThere || dirname(path) === path) throw error;
    return statfsAt(dirname(path));
  }
}
