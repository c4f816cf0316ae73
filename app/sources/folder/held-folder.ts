/**
 * A watched folder by its descriptor. Names below it are reached one at a time and never by a link. So a folder that is
 * swapped while it is read leads nowhere else.
 */
import type { BigIntStats } from 'node:fs';
import { type FileHandle, lstat, opendir } from 'node:fs/promises';
import { openFolder, openUnlinked } from '../../../files/open-file.ts';

/** Returns the path of a name in an open folder, which the kernel resolves by the descriptor. */
function locate(folder: FileHandle, name: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`/proc/self/fd/${folder.fd}/`), name]);
}

/**
 * Opens the folder at a path without links.
 * @throws FileRefusal, also if a part of the path has become a link since
 */
export async function openWatched(path: string): Promise<FileHandle> {
  return await openFolder(path, path);
}

/** Opens a folder in a folder. @throws FileRefusal for a link or a file */
export async function openChild(folder: FileHandle, name: Buffer): Promise<FileHandle> {
  return await openFolder(locate(folder, name), null);
}

/** Lists the names of a folder in the order of its file system, a few at a time. */
export async function* listNames(
  folder: FileHandle,
): AsyncGenerator<{ readonly name: Buffer; readonly isFolder: boolean }> {
  // Names need not be UTF-8. The types of Node know only names that are text.
  const options = { encoding: 'buffer' as BufferEncoding, bufferSize: 256 };
  for await (const entry of await opendir(`/proc/self/fd/${folder.fd}/.`, options))
    yield { name: entry.name as unknown as Buffer, isFolder: entry.isDirectory() };
}

/** Reads the facts of a name itself, also if it is a link. @returns null if it no longer exists */
export async function readFacts(folder: FileHandle, name: Buffer): Promise<BigIntStats | null> {
  try {
    return await lstat(locate(folder, name), { bigint: true });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw error;
  }
}

/** Opens a regular file below a folder. @param names  the folders on the way, and the file @throws FileRefusal */
export async function openBelow(root: FileHandle, names: readonly Buffer[]): Promise<FileHandle> {
  const opened: FileHandle[] = [];
  let folder = root;
  try {
    for (const name of names.slice(0, -1)) {
      folder = await openChild(folder, name);
      opened.push(folder);
    }
    return await openUnlinked(locate(folder, names.at(-1)!));
  } finally {
    for (const handle of opened) await handle.close();
  }
}
