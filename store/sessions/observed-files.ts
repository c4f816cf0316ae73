/**
 * Records the last event that a session's observers received, so that a delivery after a crash does not repeat events.
 */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ObservedEvents } from '../../activities/ports/session-stores.ts';
import { markUse } from '../server-mark.ts';
import { sessionRecordsDir } from './record-files.ts';

export function createObservedFiles(stateDir: string, serverId: string): ObservedEvents {
  const folderOf = (session: string): string => sessionRecordsDir(stateDir, session);
  return {
    last: async (session) => readLastObserved(folderOf(session)),
    note: async (session, number) => noteObserved(folderOf(session), number),
    async begin(session) {
      mkdirSync(folderOf(session), { recursive: true, mode: 0o700 });
      markUse(folderOf(session), serverId);
    },
  };
}

/** Returns the number of the last event that the observers received. `dir`: the session's folder. */
export function readLastObserved(dir: string): number {
  try {
    return Number(readFileSync(join(dir, 'observed'), 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0;
    throw error;
  }
}

export function noteObserved(dir: string, number: number): void {
  const file = join(dir, 'observed');
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  writeFileSync(`${file}.${process.pid}`, String(number), { mode: 0o600 });
  renameSync(`${file}.${process.pid}`, file);
}

export function forgetObserved(dir: string): void {
  rmSync(join(dir, 'observed'), { force: true });
}
