/** Whether the service can start and follow runs now, and what it lacks. */
import { readDiskRoom } from '../../store/disk-room.ts';
import { formatBytes } from '../../domain/units/bytes.ts';
import { RUN_TASK_QUEUE } from '../../workflows/messages.ts';
import type { Machine } from '../machine.ts';
import { openRunsLink } from '../server-link.ts';

export interface MissingPart {
  readonly part: 'server' | 'worker' | 'disk' | 'store';
  readonly problem: string;
}

export interface Readiness {
  readonly isReady: boolean;
  readonly missing: readonly MissingPart[];
}

/** @param readRoom  replaced by tests */
export async function checkReadiness(context: Machine, readRoom = readDiskRoom): Promise<Readiness> {
  const missing = (await Promise.all([checkStore(context), checkServer(context)])).flat();
  const disk = checkDisk(readRoom(context.env.stateDir));
  const all = disk === null ? missing : [...missing, disk];
  return { isReady: all.length === 0, missing: all };
}

async function checkStore(context: Machine): Promise<readonly MissingPart[]> {
  try {
    await (await context.stores()).index.openRuns();
    return [];
  } catch (error) {
    return [{ part: 'store', problem: `the runs cannot be read: ${(error as Error).message}` }];
  }
}

async function checkServer(context: Machine): Promise<readonly MissingPart[]> {
  const link = await openRunsLink(context, { start: false }).catch(() => null);
  if (link === null) return [{ part: 'server', problem: 'the Temporal server does not answer' }];
  const { QUIET_MS, readLastPollTime } = await import('../../client/temporal/pollers.ts');
  try {
    const lastMs = await readLastPollTime(link.client(), RUN_TASK_QUEUE);
    const isPolled = lastMs !== null && context.now().getTime() - lastMs < QUIET_MS;
    return isPolled ? [] : [{ part: 'worker', problem: 'no worker asks the Temporal server for runs' }];
  } catch (error) {
    return [{ part: 'server', problem: `the Temporal server does not answer: ${(error as Error).message}` }];
  }
}

function checkDisk({ isLow, availableBytes, floorBytes }: ReturnType<typeof readDiskRoom>): MissingPart | null {
  if (!isLow) return null;
  return {
    part: 'disk',
    problem: `the disk of the state folder has ${formatBytes(availableBytes)}; VMs start with ${formatBytes(floorBytes)}`,
  };
}
