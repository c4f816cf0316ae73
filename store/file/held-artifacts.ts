/** Empty files in `held/` of the state folder, whose names are the hashes of artifacts that deliveries name. */
import { open, readdir, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { isSha256 } from '../../domain/units/sha256.ts';
import { errnoOf } from '../../files/errno.ts';
import type { HeldArtifacts } from '../ports/held-artifacts.ts';
import { createStoreFailure, DurableFolders, syncDir } from './layout.ts';

export function createHeldArtifacts(stateDir: string): HeldArtifacts {
  const dir = locateHeld(stateDir);
  const folders = new DurableFolders(stateDir);
  const locate = (sha256: string): string => {
    if (!isSha256(sha256)) throw new Error(`${JSON.stringify(sha256)} is not the sha256 of an artifact`);
    return join(dir, sha256);
  };
  return {
    async hold(sha256) {
      const path = locate(sha256);
      try {
        await folders.make(dir);
        await (await open(path, 'a', 0o600)).close();
        await utimes(path, new Date(), new Date());
        await syncDir(dir);
      } catch (error) {
        throw createStoreFailure('cannot hold an artifact in', dir, error);
      }
    },
    async listOlder(beforeMs) {
      const older: string[] = [];
      for (const name of await listHeld(stateDir)) {
        const facts = await stat(join(dir, name)).catch(() => null);
        if (facts !== null && facts.mtimeMs < beforeMs) older.push(name);
      }
      return older;
    },
    release: async (sha256) => await rm(locate(sha256), { force: true }),
  };
}

/** Lists the hashes of held artifacts. */
export async function listHeld(stateDir: string): Promise<readonly string[]> {
  try {
    return (await readdir(locateHeld(stateDir))).filter(isSha256);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  }
}

function locateHeld(stateDir: string): string {
  return join(stateDir, 'held');
}
