/** Describes the data of the file store, which is below a state folder on a disk of this host. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { LocalStore } from '../../activities/ports/local-store.ts';
import { isHostId } from '../../domain/run/host.ts';
import { readDiskRoom } from '../disk-room.ts';
import { errnoOf } from '../../files/errno.ts';
import { runDir, runsDir } from '../state-folder.ts';
import { createBallast } from './ballast.ts';

export function createFileLocalStore(stateDir: string): LocalStore {
  return {
    name: stateDir,
    // With either durability, because events that no caller waits for are not synced.
    canLoseEvents: true,
    ballast: createBallast(stateDir),
    readRoom: () => readDiskRoom(stateDir),
    folderOf: (runId) => runDir(stateDir, runId),
    admittingHosts: () => readAdmittingHosts(stateDir),
  };
}

function* readAdmittingHosts(stateDir: string): Generator<string> {
  for (const file of admissionsIn(runsDir(stateDir))) {
    const id = hostIn(file);
    if (id !== null) yield id;
  }
}

/** Files of admissions, newest first. */
function admissionsIn(dir: string): readonly string[] {
  return namesIn(dir)
    .flatMap((name) => {
      const file = join(dir, name, 'records', 'admission.json');
      const stats = statSync(file, { throwIfNoEntry: false });
      return stats === undefined ? [] : [{ file, atMs: stats.mtimeMs }];
    })
    .toSorted((one, other) => other.atMs - one.atMs)
    .map(({ file }) => file);
}

function hostIn(file: string): string | null {
  try {
    const { hostId } = JSON.parse(readFileSync(file, 'utf8')) as { readonly hostId?: unknown };
    return isHostId(hostId) ? hostId : null;
  } catch {
    // The run is damaged, or was just pruned: another run names the host.
    return null;
  }
}

function namesIn(dir: string): readonly string[] {
  try {
    return readdirSync(dir);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  }
}
