/** The folders of versions of deployments, below the state folder. */
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskRoom } from '../../activities/ports/local-store.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { VersionFolders } from '../uploads.ts';
import { DurableFolders, syncDir } from './layout.ts';

/** A deployment has this long between its folder and its row. */
const NEW_MS = 24 * 60 * 60_000;
const NAME = /^[0-9a-f]{32}$/;

export interface VersionFoldersOptions {
  readonly stateDir: string;
  readonly readRoom: () => DiskRoom;
}

export function createVersionFolders({ stateDir, readRoom }: VersionFoldersOptions): VersionFolders {
  const root = join(stateDir, 'deployments');
  const folders = new DurableFolders(stateDir);
  const locate = (name: string): string => {
    // Rows of the database name the folders.
    if (!NAME.test(name)) throw new Error(`${JSON.stringify(name)} is not the name of a folder of a version`);
    return join(root, name);
  };
  const drop = async (name: string): Promise<void> => await rm(locate(name), { recursive: true, force: true });
  return {
    async make() {
      const { isLow, availableBytes } = readRoom();
      if (isLow)
        throw new CodedError(
          'host/disk-full',
          `the disk of ${stateDir} has ${availableBytes} bytes left, which are reserved for runs`,
        );
      await folders.make(root);
      const name = randomBytes(16).toString('hex');
      const path = locate(name);
      // A guest reads it as another user; the folder above keeps other users of this machine out.
      await mkdir(path);
      await chmod(path, 0o755);
      await syncDir(root);
      return { name, path };
    },
    locate,
    drop,
    async sweep(isNamed, nowMs) {
      const names = await readdir(root).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return [];
        throw error;
      });
      for (const name of names.filter((each) => NAME.test(each))) {
        const facts = await stat(join(root, name)).catch(() => null);
        if (facts === null || nowMs - facts.mtimeMs < NEW_MS || (await isNamed(name))) continue;
        await drop(name);
      }
    },
  };
}
