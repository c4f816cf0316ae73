/**
 * Unpacks the tar of a client into a new folder of this host. Each folder of an entry is opened from the folder above
 * it, without following links, so that no entry is written elsewhere.
 */
import { Buffer } from 'node:buffer';
import { constants } from 'node:fs';
import { link, mkdir, open, symlink, type FileHandle } from 'node:fs/promises';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { cleanPath, linkStaysInside } from '../../tar/inside.ts';
import { streamTar, type StreamedEntry } from '../../tar/stream.ts';
import { AppError } from '../app-error.ts';

export interface UnpackLimits {
  /** Files, folders and links, also folders that only the path of an entry names. */
  readonly entries: number;
  readonly bytes: number;
}

export const UNPACK_LIMITS: UnpackLimits = { entries: 100_000, bytes: 2 * 1024 ** 3 };

/** All uploads of one start together: while they are unpacked, other starts with uploads wait. */
export const START_LIMITS: UnpackLimits = { entries: 200_000, bytes: 4 * 1024 ** 3 };

/** The entries and bytes that all uploads of one start have unpacked. */
export interface UnpackTotal {
  readonly limits: UnpackLimits;
  entries: number;
  bytes: number;
}

export function createUnpackTotal(limits: UnpackLimits = START_LIMITS): UnpackTotal {
  return { limits, entries: 0, bytes: 0 };
}

/** How many bytes are unpacked between two looks at the room of the disk. */
const ROOM_BYTES = 16 * 1024 * 1024;
/** An entry uses a block of the disk, also if it has no bytes. */
const ENTRY_BYTES = 4 * 1024;
const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const NEW_FILE_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/** A guest reads the folders as another user. The folder of the run keeps other users of this machine out. */
export const FOLDER_MODE = 0o755;

export interface UnpackRequest {
  /** The absolute path of the folder. It exists, and only this user can change it. */
  readonly folder: string;
  /** The path of the upload in the request, for messages. */
  readonly key: string;
  readonly limits: UnpackLimits;
  readonly total: UnpackTotal;
  /** Throws if the room of the disk is reserved for others. */
  readonly requireRoom: () => void;
}

/**
 * Unpacks regular files, folders, hard links to files of the tar, and relative links that stay inside.
 * @throws AppError `api/upload-refused` with the place of the entry; errors of `requireRoom` and of the disk
 */
export async function unpackUpload(bytes: AsyncIterable<Uint8Array>, request: UnpackRequest): Promise<void> {
  const unpacking = new Unpacking(request, await open(request.folder, FOLDER_FLAGS));
  try {
    // Names are bytes: one character for each.
    for await (const entry of streamTar(bytes, 'latin1')) await unpacking.add(entry);
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('tar: '))
      throw createRefusal(request.key, `it is not a whole tar: ${sanitizeLine(error.message.slice(5))}`);
    throw error;
  } finally {
    await unpacking.close();
  }
}

interface OpenFolder {
  readonly path: string;
  readonly handle: FileHandle;
}

class Unpacking {
  readonly #request: UnpackRequest;
  /** The folders from the root of the upload to the last entry. */
  readonly #open: OpenFolder[];
  /** Every path that exists. `implied`: a folder that no entry has described yet. */
  readonly #made = new Map<string, 'file' | 'link' | 'folder' | 'implied'>();
  #entries = 0;
  #bytes = 0;
  /** A start has many uploads, so each begins with a look at the room. */
  #checkedBytes = ROOM_BYTES;

  constructor(request: UnpackRequest, root: FileHandle) {
    this.#request = request;
    this.#open = [{ path: '', handle: root }];
  }

  async close(): Promise<void> {
    for (const { handle } of this.#open) await handle.close();
  }

  async add(entry: StreamedEntry): Promise<void> {
    this.#count(entry.path);
    if (entry.kind === 'dir' && /^(?:\.\/*)+$/.test(entry.path) && !entry.path.includes('..')) return;
    const path = cleanPath(entry.path);
    if (path === null) throw this.#refuse(entry.path, 'its path is absolute, too long, or leads out of the upload');
    if (entry.kind === 'dir') return await this.#addFolder(path);
    if (this.#made.has(path)) throw this.#refuse(path, 'there are two entries with this path');
    const end = path.lastIndexOf('/');
    const parent = await this.#enter(path.slice(0, Math.max(end, 0)), path);
    const at = joinName(parent, path.slice(end + 1));
    switch (entry.kind) {
      case 'file':
        await this.#writeFile(at, path, entry);
        break;
      case 'symlink':
        if (!linkStaysInside(path, entry.linkTarget))
          throw this.#refuse(path, 'it is a link that leads out of the upload');
        await this.#make(path, () => symlink(Buffer.from(entry.linkTarget, 'latin1'), at));
        this.#made.set(path, 'link');
        break;
      case 'hardlink':
        await this.#linkFile(at, path, entry.linkTarget);
        break;
      case 'other':
        throw this.#refuse(path, 'only files, folders and links are unpacked');
    }
  }

  async #addFolder(path: string): Promise<void> {
    if (this.#made.get(path) === 'folder') throw this.#refuse(path, 'there are two entries with this path');
    await this.#enter(path, path);
    this.#made.set(path, 'folder');
  }

  /**
   * Opens a folder, and makes it and the folders above it if they do not exist yet.
   * @param entry  the path of the entry that needs it
   */
  async #enter(path: string, entry: string): Promise<FileHandle> {
    const parts = path === '' ? [] : path.split('/');
    while (this.#open.length > 1 && !isBelow(path, this.#open.at(-1)!.path)) await this.#open.pop()!.handle.close();
    for (let depth = this.#open.length - 1; depth < parts.length; depth += 1) {
      const folder = parts.slice(0, depth + 1).join('/');
      const at = joinName(this.#open.at(-1)!.handle, parts[depth]!);
      const known = this.#made.get(folder);
      if (known === 'file' || known === 'link') throw this.#refuse(entry, `\`${sanitize(folder)}\` is not a folder`);
      if (known === undefined) {
        if (folder !== entry) this.#count(entry);
        await this.#make(folder, () => mkdir(at));
        this.#made.set(folder, 'implied');
      }
      const handle = await open(at, FOLDER_FLAGS);
      this.#open.push({ path: folder, handle });
      if (known === undefined) await handle.chmod(FOLDER_MODE);
    }
    return this.#open.at(-1)!.handle;
  }

  async #writeFile(at: Buffer, path: string, entry: StreamedEntry): Promise<void> {
    if (entry.isSparse) throw this.#refuse(path, 'it is a sparse file');
    this.#bytes += entry.sizeBytes;
    const { limits, total } = this.#request;
    if (this.#bytes > limits.bytes) throw this.#refuse(path, `all files together have more than ${limits.bytes} bytes`);
    total.bytes += entry.sizeBytes;
    if (total.bytes > total.limits.bytes)
      throw this.#refuse(path, `all uploads of the request have more than ${total.limits.bytes} bytes`);
    // The owner can always read and replace the file; no bit gives the rights of another user.
    const mode = (entry.mode & 0o755) | 0o600;
    const file = await this.#make(path, () => open(at, NEW_FILE_FLAGS, mode));
    this.#made.set(path, 'file');
    try {
      for await (const part of entry.body) {
        this.#takeRoom(part.byteLength);
        await file.writeFile(part);
      }
      // The umask of this process has no meaning in a guest.
      await file.chmod(mode);
      await file.utimes(entry.modifiedS, entry.modifiedS);
    } finally {
      await file.close();
    }
  }

  async #linkFile(at: Buffer, path: string, target: string): Promise<void> {
    const file = cleanPath(target);
    if (file === null || this.#made.get(file) !== 'file')
      throw this.#refuse(path, 'it is a hard link, and no earlier file has the path of its target');
    // Every folder on the way is one that this class made, and no link.
    await this.#make(path, () => link(joinName(this.#open[0]!.handle, file), at));
    this.#made.set(path, 'file');
  }

  /** Something that no entry of the tar has made can have the name, such as another upload. */
  async #make<T>(path: string, make: () => Promise<T>): Promise<T> {
    try {
      return await make();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw this.#refuse(path, 'another upload has this path');
      throw error;
    }
  }

  #count(path: string): void {
    this.#entries += 1;
    const { limits, total } = this.#request;
    if (this.#entries > limits.entries) throw this.#refuse(path, `the tar has more than ${limits.entries} entries`);
    total.entries += 1;
    if (total.entries > total.limits.entries)
      throw this.#refuse(path, `all uploads of the request have more than ${total.limits.entries} entries`);
    this.#takeRoom(ENTRY_BYTES);
  }

  #takeRoom(bytes: number): void {
    this.#checkedBytes += bytes;
    if (this.#checkedBytes < ROOM_BYTES) return;
    this.#request.requireRoom();
    this.#checkedBytes = 0;
  }

  #refuse(path: string, why: string): AppError {
    return createRefusal(this.#request.key, `entry ${this.#entries}, \`${sanitize(path)}\`: ${why}`);
  }
}

function isBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

/** The path of a name in an open folder. */
function joinName({ fd }: FileHandle, name: string): Buffer {
  return Buffer.from(`/proc/self/fd/${fd}/${name}`, 'latin1');
}

function sanitize(path: string): string {
  return sanitizeLine(Buffer.from(path.slice(0, 200), 'latin1').toString());
}

function createRefusal(key: string, why: string): AppError {
  return new AppError('usage', 'api/upload-refused', `the upload for \`${sanitizeLine(key.slice(0, 200))}\`: ${why}`);
}
