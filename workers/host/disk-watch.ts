/** Watches the disk of a store on this host for a worker: keeps the ballast, and logs when the disk is full and when it is not. */
import type { LocalStore } from '../../activities/ports/local-store.ts';
import type { PumpDisk } from '../../activities/ports/pump-disk.ts';
import { formatBytes } from '../../domain/units/bytes.ts';
import { isDiskFull } from '../../store/disk-room.ts';
import { textOf, type Log } from '../log.ts';

/** A full disk is met by writers at once; until the ballast is given up their tries are repeated anyway. */
const LOOK_INTERVAL_MS = 1_000;
/** The time that output waits for room: as long as its VM waits. */
const WAIT_LIMIT_MS = 60 * 60 * 1000;

export interface DiskWatch {
  readonly pump: PumpDisk;
  stop(): void;
}

/**
 * @param local  null: the store has no disk here, so nothing waits for its room
 * @param waitLimitMs  null is the default
 */
export function watchDisk(local: LocalStore | null, waitLimitMs: number | null, log: Log): DiskWatch {
  const limitMs = waitLimitMs ?? WAIT_LIMIT_MS;
  if (local === null)
    return { pump: { hasRoomForOutput: () => true, isFull: isDiskFull, limitMs }, stop: () => undefined };
  const { ballast, name } = local;
  let trouble = '';
  let wasFull = false;
  const checkDisk = (atOnce: boolean): void => {
    try {
      const done = ballast.look(atOnce);
      trouble = '';
      if (done === 'released') {
        wasFull = true;
        const { availableBytes } = local.readRoom();
        log(
          'warning',
          `the disk of ${name} is full: the ballast is released, ${formatBytes(availableBytes)} are left for messages; free space (voidbox prune)`,
        );
      } else if (done === 'made' && wasFull) {
        wasFull = false;
        log('info', `the disk of ${name} has room again: the ballast is in place`);
      }
    } catch (error) {
      const text = `the disk of ${name}: ${textOf(error)}`;
      if (text !== trouble) log('warning', text);
      trouble = text;
    }
  };
  checkDisk(true);
  const timer = setInterval(() => checkDisk(false), LOOK_INTERVAL_MS);
  timer.unref();
  return {
    pump: {
      hasRoomForOutput: () => ballast.hasRoomForOutput(),
      isFull: isDiskFull,
      limitMs,
    },
    stop: () => clearInterval(timer),
  };
}
