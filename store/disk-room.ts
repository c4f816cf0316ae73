/** Reads the free room of the disk of a state folder, and decides when it is too little for new work. */
import { statfsSync, type StatsFs } from 'node:fs';
import { dirname } from 'node:path';
import type { DiskRoom } from '../activities/ports/local-store.ts';
import { errnoOf } from '../files/errno.ts';

/** Below this limit no VM starts. */
const FLOOR_BYTES = 512 * 1024 * 1024;
/** On a small file system the limit is this fraction of it. */
const FLOOR_SHARE = 20;

/** Returns the room for this user at a path, or at the folder in which the path will be made. */
export function readDiskRoom(path: string): DiskRoom {
  const { bavail, blocks, bsize } = statfsAt(path);
  const availableBytes = bavail * bsize;
  const sizeBytes = blocks * bsize;
  const floorBytes = Math.min(FLOOR_BYTES, Math.floor(sizeBytes / FLOOR_SHARE));
  return { availableBytes, sizeBytes, floorBytes, isLow: availableBytes < floorBytes };
}

function statfsAt(path: string): StatsFs {
  try {
    return statfsSync(path);
  } catch (error) {
    const isThere = !['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '');
    if (isThere || dirname(path) === path) throw error;
    return statfsAt(dirname(path));
  }
}

const MAX_CAUSES = 5;

/** True for a failure that more room would have prevented, however it is wrapped. */
export function isDiskFull(error: unknown): boolean {
  let at = error;
  for (let depth = 0; depth < MAX_CAUSES && at instanceof Error; depth += 1) {
    const errno = errnoOf(at);
    if (errno === 'ENOSPC' || errno === 'EDQUOT') return true;
    at = at.cause;
  }
  return false;
}
