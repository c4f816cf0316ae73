/** Moves a damaged run into `damaged/`, by one rename. Nothing of it is deleted. */
import { existsSync, renameSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { DamagedRun } from '../../activities/ports/run-inspector.ts';
import { makePrivateDir, runsDir } from '../state-folder.ts';
import { damagedDir, createStoreFailure, syncDir } from './layout.ts';

/**
 * While the folder is there, Voidbox refuses to continue the run (`store/damaged`).
 * @returns the new folder of the run
 * @throws CodedError `store/io`
 */
export async function setAside(stateDir: string, { place }: DamagedRun): Promise<string> {
  const target = freeName(damagedDir(stateDir), basename(place));
  try {
    await makePrivateDir(damagedDir(stateDir));
    renameSync(place, target);
    await syncDir(damagedDir(stateDir));
    await syncDir(runsDir(stateDir));
    return target;
  } catch (error) {
    throw createStoreFailure('cannot set aside', place, error);
  }
}

/** The folder's own name, else one with a number: the first keeps the run from being begun again. */
function freeName(dir: string, name: string): string {
  for (let count = 1; ; count += 1) {
    const path = join(dir, count === 1 ? name : `${name}~${count}`);
    if (!existsSync(path)) return path;
  }
}
