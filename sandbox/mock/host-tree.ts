/** Host folders into a mock guest's memory. Small ones: a mock holds them whole. */
import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { MockFiles } from './files.ts';

/** @throws CodedError `store/io` when the host path cannot be read */
export async function copyHostTreeIn(files: MockFiles, hostPath: string, guestPath: string): Promise<void> {
  try {
    const found = await lstat(hostPath);
    if (found.isSymbolicLink()) {
      files.link(guestPath, await readlink(hostPath));
    } else if (found.isFile()) {
      files.write(guestPath, await readFile(hostPath), found.mode & 0o777);
    } else if (found.isDirectory()) {
      files.makeDir(guestPath);
      for (const name of await readdir(hostPath))
        await copyHostTreeIn(files, join(hostPath, name), posix.join(guestPath, name));
    }
  } catch (error) {
    if (error instanceof CodedError) throw error;
    throw new CodedError('store/io', `cannot copy ${hostPath} into the guest: ${(error as Error).message}`, {
      cause: error,
    });
  }
}
