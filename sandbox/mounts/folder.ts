/**
 * Holds a folder of the host by its descriptor. Names in it are reached through the descriptor, one component at a
 * time, and never through a link. So a guest or another program cannot redirect a path.
 */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { constants, type BigIntStats } from 'node:fs';
import {
  lstat,
  mkdir,
  open,
  readdir,
  readlink,
  rename,
  rmdir,
  symlink,
  unlink,
  type FileHandle,
} from 'node:fs/promises';
import type { MountEntry } from './manifest.ts';
import { nameOf, parentOf } from './changes.ts';

const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY;
/** The file may have become a pipe since the last check: opening it must not wait. */
const FILE_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const READ_BYTES = 1024 * 1024;

/** The kind of entry at a name. `other` is a device, a pipe or a socket. */
export type Found = MountEntry | { readonly kind: 'other' };

export class Folder {
  readonly #handle: FileHandle;

  private constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  /**
   * Opens the folder at a path that had no links when the run was admitted.
   * @throws an error ELOOP if the path leads elsewhere
   */
  static async open(path: string): Promise<Folder> {
    const folder = new Folder(await open(path, FOLDER_FLAGS));
    if ((await readlink(`/proc/self/fd/${folder.#handle.fd}`)) === path) return folder;
    await folder.close();
    throw Object.assign(new Error(`${path} leads through a link that was not there when its run was admitted`), {
      code: 'ELOOP',
    });
  }

  /** Returns the present path of the folder, without links. */
  realPath(): Promise<string> {
    return readlink(`/proc/self/fd/${this.#handle.fd}`);
  }

  async child(name: string): Promise<Folder> {
    return new Folder(await open(this.#at(name), FOLDER_FLAGS | constants.O_NOFOLLOW));
  }

  /** Returns names in an order that does not depend on the file system. */
  async names(): Promise<readonly string[]> {
    return (await readdir(`/proc/self/fd/${this.#handle.fd}`, { encoding: 'latin1' })).sort();
  }

  /** Returns null if the name does not exist. */
  async stat(name: string): Promise<BigIntStats | null> {
    try {
      return await lstat(this.#at(name), { bigint: true });
    } catch (error) {
      if (isAbsent(error)) return null;
      throw error;
    }
  }

  async link(name: string): Promise<string> {
    return (await readlink(this.#at(name), { encoding: 'buffer' })).toString('latin1');
  }

  /** Opens a regular file for reading. */
  openFile(name: string): Promise<FileHandle> {
    return open(this.#at(name), FILE_FLAGS);
  }

  newFile(name: string): Promise<FileHandle> {
    return open(
      this.#at(name),
      constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
      0o600,
    );
  }

  makeFolder(name: string, mode: number): Promise<void> {
    return mkdir(this.#at(name), { mode }).then(() => undefined);
  }

  makeLink(name: string, target: string): Promise<void> {
    return symlink(Buffer.from(target, 'latin1'), this.#at(name));
  }

  /** Replaces an existing file or link. */
  moveTo(name: string, folder: Folder, newName: string): Promise<void> {
    return rename(this.#at(name), folder.#at(newName));
  }

  removeFolder(name: string): Promise<void> {
    return rmdir(this.#at(name));
  }

  removeFile(name: string): Promise<void> {
    return unlink(this.#at(name));
  }

  async setMode(mode: number): Promise<void> {
    await this.#handle.chmod(mode);
  }

  /** Resolves once the folder's names and its mode are on the disk. */
  async sync(): Promise<void> {
    try {
      await this.#handle.sync();
    } catch (error) {
      // Some network file systems have no such call for folders, and store names in their own way.
      if (errno(error) !== 'EINVAL' && errno(error) !== 'ENOTSUP') throw error;
    }
  }

  facts(): Promise<BigIntStats> {
    return this.#handle.stat({ bigint: true });
  }

  /** A path of this folder that the kernel resolves by descriptor. */
  get ownPath(): string {
    return `/proc/self/fd/${this.#handle.fd}/.`;
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }

  /** Returns the entry at a name, with the hash of its contents; null if the name does not exist. */
  async look(name: string): Promise<Found | null> {
    const stat = await this.stat(name);
    if (stat === null) return null;
    const mode = Number(stat.mode) & 0o777;
    if (stat.isDirectory()) return { kind: 'dir', mode: mode | 0o700 };
    if (stat.isSymbolicLink()) return { kind: 'link', target: await this.link(name) };
    if (!stat.isFile()) return { kind: 'other' };
    const file = await this.openFile(name);
    try {
      const hash = createHash('sha256');
      const buffer = Buffer.allocUnsafe(READ_BYTES);
      let sizeBytes = 0;
      for (;;) {
        const { bytesRead } = await file.read(buffer, 0, buffer.length, null);
        if (bytesRead === 0) return { kind: 'file', mode, sizeBytes, sha256: hash.digest('hex') };
        hash.update(buffer.subarray(0, bytesRead));
        sizeBytes += bytesRead;
      }
    } finally {
      await file.close();
    }
  }

  /** Removes any entry at a name; a missing entry is no error. Links are removed, not followed. */
  async removeAll(name: string): Promise<void> {
    const stat = await this.stat(name);
    if (stat === null) return;
    if (!stat.isDirectory()) return ignoreAbsent(this.removeFile(name));
    const inner = await this.child(name);
    try {
      for (const each of await inner.names()) await inner.removeAll(each);
    } finally {
      await inner.close();
    }
    await ignoreAbsent(this.removeFolder(name));
  }

  #at(name: string): Buffer {
    // A longer path could leave the folder of the descriptor.
    if (name === '' || name === '.' || name === '..' || name.includes('/') || name.includes('\0'))
      throw new Error(`${JSON.stringify(name)} is not one name`);
    return Buffer.from(`/proc/self/fd/${this.#handle.fd}/${name}`, 'latin1');
  }
}

/** Opens folders of a tree by path, from the root down; keeps open those of the last path. */
export class FolderPath {
  readonly #root: Folder;
  #open: { readonly path: string; readonly folder: Folder }[] = [];

  constructor(root: Folder) {
    this.#root = root;
  }

  /** Returns the folder at a path; null if the folder does not exist, or if another kind of entry is on the path. */
  async at(path: string): Promise<Folder | null> {
    while (this.#open.length > 0 && !isWithin((this.#open.at(-1) as { path: string }).path, path)) await this.#pop();
    const known = this.#open.at(-1);
    if (path === '') return this.#root;
    if (known?.path === path) return known.folder;
    const above = await this.#parent(path, known?.path ?? '');
    if (above === null) return null;
    try {
      const folder = await above.child(nameOf(path));
      this.#open.push({ path, folder });
      return folder;
    } catch (error) {
      if (isAbsent(error) || errno(error) === 'ELOOP') return null;
      throw error;
    }
  }

  /** Closes the open folders, after folders were made or removed. */
  async reset(): Promise<void> {
    while (this.#open.length > 0) await this.#pop();
  }

  async #parent(path: string, known: string): Promise<Folder | null> {
    const parent = parentOf(path);
    return parent === known ? (this.#open.at(-1)?.folder ?? this.#root) : this.at(parent);
  }

  async #pop(): Promise<void> {
    await this.#open.pop()?.folder.close();
  }
}

/** Resolves once created and removed names of entries are on the disk; for folders among them, the mode too. */
export async function syncEntries(
  root: Folder,
  entries: Iterable<readonly [path: string, entry: MountEntry | null]>,
): Promise<void> {
  const paths = new Set(['']);
  for (const [path, entry] of entries) {
    paths.add(parentOf(path));
    if (entry?.kind === 'dir') paths.add(path);
  }
  const folders = new FolderPath(root);
  try {
    // A removed folder has no names to sync, and the folder above it is in this list.
    for (const path of [...paths].sort()) await (await folders.at(path))?.sync();
  } finally {
    await folders.reset();
  }
}

function isWithin(outer: string, inner: string): boolean {
  return inner === outer || inner.startsWith(`${outer}/`);
}

export function errno(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

export function isAbsent(error: unknown): boolean {
  return errno(error) === 'ENOENT' || errno(error) === 'ENOTDIR';
}

async function ignoreAbsent(work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!isAbsent(error)) throw error;
  }
}
