/** Copies host folders into a mock guest's memory. They must be small, because a mock holds them whole. */
import { lstat, readdir, readlink } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { openFile } from '../../files/open-file.ts';
import type { MockFiles } from './files.ts';

/** @throws CodedError `store/io` if the host path cannot be read */
export async function copyHostTreeIn(
  files: MockFiles,
  hostPath: string,
  guestPath: string,
  root = hostPath,
): Promise<void> {
  try {
    const found = await lstat(hostPath);
    if (found.isSymbolicLink()) {
      files.link(guestPath, await readlink(hostPath));
    } else if (found.isFile()) {
      const { handle } = await openFile(hostPath, { roots: [root] });
      try {
        files.write(guestPath, await handle.readFile(), found.mode & 0o777);
      } finally {
        await handle.close();
      }
    } else if (found.isDirectory()) {
      files.makeDir(guestPath);
      for (const name of await readdir(hostPath))
        await copyHostTreeIn(files, join(hostPath, name), posix.join(guestPath, name), root);
    }
  } catch (error) {
    if (error instanceof CodedError) throw error;
    throw new CodedError('store/io', `cannot copy ${hostPath} into the guest: ${(error as Error).message}`, {
      cause: error,
    });
  }
}
