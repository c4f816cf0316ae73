/**
 * A folder of a repository, held by its descriptor. Its author may be hostile. A link in it is followed only into
 * folders that the reader may read, and a named pipe blocks no reader. Changes by the author do not affect a folder
 * that is already open.
 */
import { Buffer } from 'node:buffer';
import { constants, type Dirent, type Stats } from 'node:fs';
import {
  copyFile,
  type FileHandle,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  readlink,
  realpath,
  rename,
  stat,
  unlink,
} from 'node:fs/promises';

const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY;
const FILE_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const NEW_FILE_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
const READ_BYTES = 64 * 1024;

export type Name = string | Buffer;

/** Reports whether a path without links may be read. */
export type ReadPermission = (path: string) => boolean;

/** A path in a repository that must not be read or written; the message names it. */
export class RefusedPlace extends Error {
  readonly place: string;
  /** The path outside of the allowed folders to which a link leads; null if the path has another fault. */
  readonly target: string | null;

  constructor(place: string, problem: string, target: string | null = null) {
    super(`${place} ${problem}`);
    this.name = 'RefusedPlace';
    this.place = place;
    this.target = target;
  }
}

export class HeldFolder {
  /** The path without links, as the kernel names it. */
  readonly path: string;
  readonly #handle: FileHandle;
  readonly #mayRead: ReadPermission;

  private constructor(handle: FileHandle, path: string, mayRead: ReadPermission) {
    this.#handle = handle;
    this.path = path;
    this.#mayRead = mayRead;
  }

  /**
   * Opens a folder and follows links. The kernel names the open folder, so an exchange between a check and a use has no
   * effect.
   * @param place  the name of the path in an error
   * @throws RefusedPlace, ENOENT
   */
  static async open(path: Name, mayRead: ReadPermission, place = path.toString()): Promise<HeldFolder> {
    const handle = await open(path, FOLDER_FLAGS).catch((error: unknown) => {
      if (codeOf(error) === 'ENOTDIR') throw new RefusedPlace(place, 'is not a folder');
      if (codeOf(error) === 'ELOOP') throw new RefusedPlace(place, 'is a link that leads to itself');
      throw error;
    });
    try {
      const found = await readlink(`/proc/self/fd/${handle.fd}`);
      if (!mayRead(found)) throw new RefusedPlace(place, `leads to ${found}`, found);
      return new HeldFolder(handle, found, mayRead);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }

  /** @returns null if the name is absent @throws RefusedPlace */
  async folder(name: Name): Promise<HeldFolder | null> {
    return await HeldFolder.open(this.#at(name), this.#mayRead, this.placeOf(name)).catch(toNullIfAbsent);
  }

  /** Opens a folder that is not a link. @returns null if the name is absent, a link or a file */
  async folderWithoutLink(name: Name): Promise<HeldFolder | null> {
    const handle = await open(this.#at(name), FOLDER_FLAGS | constants.O_NOFOLLOW).catch((error: unknown) => {
      if (codeOf(error) === 'ELOOP') return null;
      return toNullIfAbsent(error);
    });
    return handle === null ? null : new HeldFolder(handle, this.placeOf(name), this.#mayRead);
  }

  /** Opens a folder to write in, and makes it if it is absent. @throws RefusedPlace for a link or a file */
  async folderToWrite(name: Name): Promise<HeldFolder> {
    await mkdir(this.#at(name)).catch((error: unknown) => {
      if (codeOf(error) !== 'EEXIST') throw error;
    });
    const folder = await this.folderWithoutLink(name);
    if (folder !== null) return folder;
    const facts = await this.facts(name);
    throw new RefusedPlace(this.placeOf(name), facts?.isSymbolicLink() === true ? 'is a link' : 'is not a folder');
  }

  /** Reads the facts of the name itself, also if it is a link. @returns null if the name is absent */
  async facts(name: Name): Promise<Stats | null> {
    return await lstat(this.#at(name)).catch(toNullIfAbsent);
  }

  /** Reads the target of a link. */
  async readLink(name: Name): Promise<Buffer> {
    return await readlink(this.#at(name), { encoding: 'buffer' });
  }

  async entries(): Promise<readonly Dirent<Buffer>[]> {
    return await readdir(`/proc/self/fd/${this.#handle.fd}`, { withFileTypes: true, encoding: 'buffer' });
  }

  /**
   * Reads a regular file of at most `mostBytes`.
   * @returns null if the name is absent @throws RefusedPlace
   */
  async readFile(name: Name, mostBytes: number): Promise<Buffer | null> {
    return await readAll(await this.#openFile(name, mostBytes), mostBytes, this.placeOf(name));
  }

  /** Reads a file by an absolute path from a file of the folder; `place` names that file. */
  async readPath(path: string, mostBytes: number, place: string): Promise<Buffer | null> {
    return await readAll(await this.#openAt(path, mostBytes, place), mostBytes, place);
  }

  /** @returns facts of the file; null if the name is absent @throws RefusedPlace */
  async copyTo(name: Name, path: Name, mostBytes: number): Promise<Stats | null> {
    const file = await this.#openFile(name, mostBytes);
    if (file === null) return null;
    try {
      await copyFile(`/proc/self/fd/${file.fd}`, path, constants.COPYFILE_FICLONE);
      return await file.stat();
    } finally {
      await file.close();
    }
  }

  /** Reports whether a name, or the target of its link, is a folder. */
  async isFolder(name: Name): Promise<boolean> {
    return (await stat(this.#at(name)).catch(() => null))?.isDirectory() === true;
  }

  /**
   * Gives a regular file a second name in a private folder, which its author cannot exchange.
   * @returns `other` if it is not a regular file, or if the file system does not allow a second name: `copyTo` copies
   * it
   */
  async linkTo(name: Name, path: Name): Promise<'linked' | 'absent' | 'other'> {
    try {
      await link(this.#at(name), path);
      if ((await lstat(path)).isFile()) return 'linked';
      await unlink(path);
      return 'other';
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return 'linked';
      if (isAbsent(error)) return 'absent';
      if (MAY_BE_COPIED.has(codeOf(error))) return 'other';
      throw error;
    }
  }

  /** Writes a file; resolves once it is on the disk. @throws EEXIST if the name is taken */
  async writeFile(name: string, mode: number, write: (file: FileHandle) => Promise<void>): Promise<void> {
    const file = await open(this.#at(name), NEW_FILE_FLAGS, mode);
    try {
      await write(file);
      await file.sync();
    } finally {
      await file.close();
    }
  }

  async rename(name: string, newName: string): Promise<void> {
    await rename(this.#at(name), this.#at(newName));
  }

  async remove(name: string): Promise<void> {
    await unlink(this.#at(name)).catch(toNullIfAbsent);
  }

  async sync(): Promise<void> {
    await this.#handle.sync();
  }

  placeOf(name: Name): string {
    return `${this.path}/${name.toString()}`;
  }

  async #openFile(name: Name, mostBytes: number): Promise<FileHandle | null> {
    return await this.#openAt(this.#at(name), mostBytes, this.placeOf(name));
  }

  async #openAt(start: Name, mostBytes: number, place: string): Promise<FileHandle | null> {
    let path = start;
    let facts = await lstat(path).catch(toNullIfAbsent);
    if (facts?.isSymbolicLink() === true) {
      const target = await realpath(path).catch((error: unknown) => {
        if (codeOf(error) === 'ELOOP') throw new RefusedPlace(place, 'is a link that leads to itself');
        return toNullIfAbsent(error);
      });
      if (target !== null && !this.#mayRead(target)) throw new RefusedPlace(place, `leads to ${target}`, target);
      facts = target === null ? null : await lstat(target).catch(toNullIfAbsent);
      path = target ?? path;
    }
    if (facts === null) return null;
    if (!facts.isFile()) throw new RefusedPlace(place, `is ${kindOf(facts)}, not a file`);
    const file = await open(path, FILE_FLAGS).catch(toNullIfAbsent);
    if (file === null) return null;
    try {
      const found = await readlink(`/proc/self/fd/${file.fd}`);
      if (!this.#mayRead(found)) throw new RefusedPlace(place, `leads to ${found}`, found);
      const opened = await file.stat();
      if (!opened.isFile()) throw new RefusedPlace(place, `is ${kindOf(opened)}, not a file`);
      if (opened.size > mostBytes) throw createTooLargeError(place, mostBytes);
      return file;
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  #at(name: Name): Buffer {
    const bytes = Buffer.from(name);
    const text = bytes.toString('latin1');
    // A name with a slash, or `..`, would leave the folder.
    if (text === '' || text === '.' || text === '..' || text.includes('/') || text.includes('\0'))
      throw new Error(`${JSON.stringify(text)} is not one name`);
    return Buffer.concat([Buffer.from(`/proc/self/fd/${this.#handle.fd}/`), bytes]);
  }
}

/**
 * Errors for another file system, a file of another user, a file system without second names, and too many names of one
 * file.
 */
const MAY_BE_COPIED = new Set(['EXDEV', 'EPERM', 'EACCES', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'EROFS']);

async function readAll(file: FileHandle | null, mostBytes: number, place: string): Promise<Buffer | null> {
  if (file === null) return null;
  try {
    const parts: Buffer[] = [];
    for (let bytes = 0; bytes <= mostBytes;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(READ_BYTES), 0, READ_BYTES, null);
      if (bytesRead === 0) return Buffer.concat(parts);
      parts.push(buffer.subarray(0, bytesRead));
      bytes += bytesRead;
    }
    throw createTooLargeError(place, mostBytes);
  } finally {
    await file.close();
  }
}

function createTooLargeError(place: string, mostBytes: number): RefusedPlace {
  return new RefusedPlace(place, `has more than ${mostBytes} bytes`);
}

function kindOf(facts: Stats): string {
  if (facts.isFIFO()) return 'a named pipe';
  if (facts.isSocket()) return 'a socket';
  if (facts.isDirectory()) return 'a folder';
  return 'a device';
}

export function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? '';
}

function isAbsent(error: unknown): boolean {
  return codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR';
}

function toNullIfAbsent(error: unknown): null {
  if (isAbsent(error)) return null;
  throw error;
}
