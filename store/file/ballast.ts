/**
 * A file that reserves room on the disk of a state folder. When the disk is full, the worker removes the file, so that
 * it can still write messages, results and the last events of runs. When there is room again, the worker makes the file
 * again.
 */
import { randomFillSync } from 'node:crypto';
import { closeSync, openSync, renameSync, rmSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Ballast, DiskRoom } from '../../activities/ports/local-store.ts';
import { readDiskRoom } from '../disk-room.ts';
import { errnoOf } from '../../files/errno.ts';
import { nameHalfFile, removeHalfFilesOf } from '../half-files.ts';

const MIB = 1024 * 1024;
const BALLAST_BYTES = 8 * MIB;
/**
 * On a small file system the ballast is this fraction of it. A VM that waits for room continues when more than twice as
 * much is free.
 */
const BALLAST_SHARE = 100;

/**
 * Keepers check the disk once a second and stop their VMs when it is full. VMs that still run would use up the released
 * room.
 */
const LOOKS = 3;

export function ballastPath(stateDir: string): string {
  return join(stateDir, 'ballast');
}

export function createBallast(stateDir: string, readRoom: () => DiskRoom = () => readDiskRoom(stateDir)): Ballast {
  const path = ballastPath(stateDir);
  let lowLooks = 0;
  let isFirst = true;
  return {
    look(atOnce = false) {
      // A worker that was killed while it made the ballast leaves megabytes.
      if (isFirst) removeHalfFilesOf(path);
      isFirst = false;
      const room = readRoom();
      const sizeBytes = ballastBytes(room);
      if (isThere(path)) {
        lowLooks = room.availableBytes < sizeBytes ? lowLooks + 1 : 0;
        if (lowLooks === 0 || (lowLooks < LOOKS && !atOnce)) return null;
        lowLooks = 0;
        rmSync(path, { force: true });
        return 'released';
      }
      if (room.availableBytes < room.floorBytes + sizeBytes) return null;
      return make(path, sizeBytes) ? 'made' : null;
    },
    hasRoomForOutput() {
      const room = readRoom();
      return room.availableBytes >= 2 * ballastBytes(room);
    },
  };
}

function ballastBytes({ sizeBytes }: DiskRoom): number {
  return Math.min(BALLAST_BYTES, Math.floor(sizeBytes / BALLAST_SHARE));
}

function isThere(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/** Random bytes, because a file system that compresses would store other bytes in no room. */
function make(path: string, sizeBytes: number): boolean {
  const partial = nameHalfFile(path);
  const chunk = Buffer.allocUnsafe(Math.min(MIB, Math.max(1, sizeBytes)));
  try {
    const fd = openSync(partial, 'w', 0o600);
    try {
      for (let left = sizeBytes; left > 0;)
        left -= writeSync(fd, randomFillSync(chunk), 0, Math.min(left, chunk.length));
    } finally {
      closeSync(fd);
    }
    renameSync(partial, path);
    return true;
  } catch (error) {
    rmSync(partial, { force: true });
    // Other programs took the room, the first start has not made the folder yet, or another worker removed the half file.
    if (['ENOSPC', 'EDQUOT', 'ENOENT'].includes(errnoOf(error) ?? '')) return false;
    throw error;
  }
}
