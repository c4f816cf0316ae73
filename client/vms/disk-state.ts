/**
 * Reads the state of a state folder's disk from the disk and the keepers of its VMs. Events cannot report a full disk,
 * since nothing can be written.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseVmKey, formatVmKey } from '../../domain/run/vm-key.ts';
import { listRunDirs, readDiskOfVm, readVmKey, type FullDisk } from '../../native/index.ts';
import type { DiskRoom } from '../../activities/ports/local-store.ts';
import { readDiskRoom } from '../../store/disk-room.ts';
import { vmsDir } from '../../store/state-folder.ts';

export interface WaitingVm extends FullDisk {
  readonly vmKey: string;
  readonly runId: string;
}

export interface DiskState extends DiskRoom {
  /** VMs that stand still for want of room. */
  readonly waiting: readonly WaitingVm[];
}

/** `runId`: only VMs of that run are asked. A keeper that does not answer says nothing. */
export async function readDiskState(stateDir: string, runId: string | null): Promise<DiskState> {
  const dirs = (await listRunDirs(vmsDir(stateDir)).catch(() => [])).filter((dir) => existsSync(join(dir, 'k.sock')));
  const waiting = await Promise.all(dirs.map((dir) => askVm(dir, runId)));
  return { ...readDiskRoom(stateDir), waiting: waiting.flat() };
}

async function askVm(dir: string, runId: string | null): Promise<readonly WaitingVm[]> {
  try {
    const key = parseVmKey((await readVmKey(dir)) ?? '');
    if (key === null || (runId !== null && key.runId !== runId)) return [];
    const full = await readDiskOfVm(dir);
    return full === null ? [] : [{ vmKey: formatVmKey(key), runId: key.runId, ...full }];
  } catch {
    return [];
  }
}
