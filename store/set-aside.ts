/** Puts a damaged run out of the way: into `damaged/`, by one rename. Nothing of it is deleted. */
import { existsSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { damagedDir, makePrivateDir, runsDir, storeFailure, syncDir } from './file/layout.ts';
import type { DamagedRun } from './inspect.ts';

/**
 * From then on whoever goes on with the run is refused (`store/damaged`), as long as its folder lies there.
 * @returns the folder that it lies in now
 * @throws CodedError `store/io`
 */
export async function setAside(stateDir: string, { folder }: DamagedRun): Promise<string> {
  const target = freeName(damagedDir(stateDir), folder.name);
  try {
    await makePrivateDir(damagedDir(stateDir));
    renameSync(folder.path, target);
    await syncDir(damagedDir(stateDir));
    await syncDir(runsDir(stateDir));
    return target;
  } catch (error) {
    throw storeFailure('cannot set aside', folder.path, error);
  }
}

/** The folder's own name, else one behind it: the first keeps the run from being begun anew. */
function freeName(dir: string, name: string): string {
  for (let count = 1; ; count += 1) {
    const path = join(dir, count === 1 ? name : `${name}~${count}`);
    if (!existsSync(path)) return path;
  }
}
