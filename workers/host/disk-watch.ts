/** Watches the disk of the state folder for a worker: keeps the ballast, and says when the disk is full and when it is not. */
import type { PumpDisk } from '../../activities/ports/pump-disk.ts';
import { formatBytes } from '../../domain/units/bytes.ts';
import { createBallast } from '../../store/file/ballast.ts';
import { isDiskFull, readDiskRoom } from '../../store/file/disk-room.ts';
import { textOf, type Log } from '../log.ts';

/** A full disk is met by writers at once; until the ballast is given up their tries are repeated anyway. */
const LOOK_INTERVAL_MS = 1_000;
/** How long output waits for room: as long as the VM that it comes from. */
const WAIT_LIMIT_MS = 60 * 60 * 1000;

export interface DiskWatch {
  readonly pump: PumpDisk;
  stop(): void;
}

/** @param waitLimitMs  null is the default */
export function watchDisk(stateDir: string, waitLimitMs: number | null, log: Log): DiskWatch {
  const ballast = createBallast(stateDir);
  let trouble = '';
  let wasFull = false;
  const look = (atOnce: boolean): void => {
    try {
      const done = ballast.look(atOnce);
      trouble = '';
      if (done === 'released') {
        wasFull = true;
        const { availableBytes } = readDiskRoom(stateDir);
        log(
          'warning',
          `the disk of ${stateDir} is full: the ballast is released, ${formatBytes(availableBytes)} are left for messages; free space (voidbox prune)`,
        );
      } else if (done === 'made' && wasFull) {
        wasFull = false;
        log('info', `the disk of ${stateDir} has room again: the ballast is in place`);
      }
    } catch (error) {
      const text = `the disk of ${stateDir}: ${textOf(error)}`;
      if (text !== trouble) log('warning', text);
      trouble = text;
    }
  };
  look(true);
  const timer = setInterval(() => look(false), LOOK_INTERVAL_MS);
  timer.unref();
  return {
    pump: {
      hasRoomForOutput: () => ballast.hasRoomForOutput(),
      isFull: isDiskFull,
      limitMs: waitLimitMs ?? WAIT_LIMIT_MS,
    },
    stop: () => clearInterval(timer),
  };
}
