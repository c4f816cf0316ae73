/** Host folders into a mock guest's memory and back. Small ones: a mock holds them whole. */
import { constants } from 'node:fs';
import { chmod, lstat, mkdir, open, readdir, readFile, readlink, symlink } from 'node:fs/promises';
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
      for (const name of await readdir(hostPath)) await copyHostTreeIn(files, join(hostPath, name), posix.join(guestPath, name));
    }
  } catch (error) {
    if (error instanceof CodedError) throw error;
    throw new CodedError('store/io', `cannot copy ${hostPath} into the guest: ${(error as Error).message}`, { cause: error });
  }
}

/** @throws CodedError `stage/bad-output` for links that lead out, and for host links in the way */
export async function copyTreeOut(files: MockFiles, guestPath: string, hostPath: string): Promise<void> {
  const items = files.pack(guestPath);
  if (items === null) throw new CodedError('vm/guest-error', `${guestPath} does not exist in the guest`);
  if (files.find(guestPath)?.kind === 'dir') await mkdir(hostPath, { recursive: true });
  for (const item of items) {
    const target = files.find(guestPath)?.kind === 'dir' ? join(hostPath, item.path) : hostPath;
    if (item.kind === 'dir') await mkdir(target, { recursive: true });
    else if (item.kind === 'symlink') await symlink(item.target, target).catch(ignoreExisting);
    else if (item.kind === 'file') await writeNoFollow(target, item.body, item.mode);
  }
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error;
}

async function writeNoFollow(path: string, body: Uint8Array, mode: number): Promise<void> {
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW, mode).catch(
    (error: NodeJS.ErrnoException) => {
      throw error.code === 'ELOOP' ? new CodedError('stage/bad-output', `${path} is a link on the host; it is not written through`) : error;
    },
  );
  try {
    await file.writeFile(body);
  } finally {
    await file.close();
  }
  await chmod(path, mode);
}
