/**
 * Lets work that needs space on the host's disk wait for it, as output does: other programs or a person may free space.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { PumpDisk } from '../ports/pump-disk.ts';

/** The interval between checks of a full disk. */
const ROOM_INTERVAL_MS = 500;

/**
 * @param work repeated after each failure that more room would have prevented
 * @throws CodedError `host/disk-full` if no room was freed in time, the signal's reason, and errors of `work`
 */
export async function withRoom<T>(
  disk: PumpDisk,
  what: string,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const givenUpAtMs = performance.now() + disk.limitMs;
  for (;;) {
    signal.throwIfAborted();
    if (disk.hasRoomForOutput()) {
      try {
        return await work();
      } catch (error) {
        if (!disk.isFull(error)) throw error;
      }
    }
    if (performance.now() > givenUpAtMs) throw diskStaysFull(what, disk.limitMs);
    await sleep(ROOM_INTERVAL_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** The keeper gives up with the same message. Which of the two gives up first depends on the output of the stage. */
export function diskStaysFull(what: string, limitMs: number): CodedError {
  const message = `the disk of the state folder had no free space for ${limitMs / 1000} s, for ${what}: free space and run again`;
  return new CodedError('host/disk-full', message);
}
