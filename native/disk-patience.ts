/** Time limits that are paused together with a VM, while its host's disk is full. */
import { ControlConnection, connectKeeper } from './connection.ts';
import { readFullDisk, type FullDisk } from './api.ts';

/** A keeper answers immediately. If it does not answer in this time, the limit is not extended. */
const ASK_LIMIT_MS = 2_000;
const ASK_AGAIN_MS = 1_000;

/**
 * Reads the state of the disk from the keeper of a run directory; null if the disk has room.
 * @throws ConnectionError if no keeper answers, CodedError `vm/protocol`
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
 * Calls `onExpired` after `limitMs`, not counting the time in which the VM of `dir` is paused. The keeper is asked only
 * when the time is up, so that a limit that does not expire costs nothing.
 * @returns a function that cancels the limit
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
    // After a pause, the limit starts again with its full time.
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
