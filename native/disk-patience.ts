/** Limits on what a VM does stand still while the VM itself does: for want of room on its host's disk. */
import { ControlConnection, connectKeeper } from './connection.ts';
import { readFullDisk, type FullDisk } from './api.ts';

/** A keeper says how it is at once. One that does not is no reason to wait longer. */
const ASK_LIMIT_MS = 2_000;
const ASK_AGAIN_MS = 1_000;

/**
 * What the keeper of a run directory says of its disk; null where there is room.
 * @throws ConnectionError when no keeper answers, CodedError `vm/protocol`
 */
export async function readDiskOfVm(dir: string): Promise<FullDisk | null> {
  const signal = AbortSignal.timeout(ASK_LIMIT_MS);
  const connection = new ControlConnection(await connectKeeper(dir, signal));
  try {
    return readFullDisk(await connection.request('status', {}, signal));
  } finally {
    connection.close(new Error('it was asked'));
  }
}

/**
 * Calls `onExpired` after `limitMs`, not counting the time in which the VM of `dir` stands still.
 * Whether it does is asked only when the time is up, so that a limit which is kept costs nothing.
 * @returns how to give the limit up
 */
export function startPatientLimit(
  dir: string,
  limitMs: number,
  onExpired: () => void,
  readDisk = readDiskOfVm,
): () => void {
  let isOver = false;
  let wasFull = false;
  const checkDisk = async (): Promise<void> => {
    const isFull = await readDisk(dir).then(
      (full) => full !== null,
      () => false,
    );
    if (isOver) return;
    // What was held up gets all of its time again.
    if (isFull) timer = setTimeout(() => void checkDisk(), ASK_AGAIN_MS);
    else if (wasFull) timer = setTimeout(() => void checkDisk(), limitMs);
    else onExpired();
    wasFull = isFull;
  };
  let timer = setTimeout(() => void checkDisk(), limitMs);
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}
