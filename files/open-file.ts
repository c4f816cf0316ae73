/**
 * Opens files at paths that others may write: the author of a cloned project, another account, a process of a guest.
 * Such a path may be a link, a pipe without a writer or a device, and may change between a check and a use. All such
 * files are opened here.
 */
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  lstatSync,
  openSync,
  readlinkSync,
  readSync,
  realpathSync,
  type Stats,
  writeSync,
} from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';

/** The folders and the size to which a path may lead. */
export interface FileRule {
  /** Folders that must contain the file, after links on both sides are followed; null: it may be anywhere. */
  readonly roots: readonly string[] | null;
  /** A larger file is refused; absent: any size. */
  readonly mostBytes?: number;
}

export interface FileFacts {
  /** The path of the file, without links. */
  readonly path: string;
  readonly sizeBytes: number;
}

/**
 * Why a file is not opened. `reason` is for programs. The message calls the file "it", so that a caller names the file.
 */
export class FileRefusal extends Error {
  readonly reason: 'missing' | 'denied' | 'not-regular' | 'outside' | 'too-large' | 'changed';
  /** The target of the path; null: the path has no target. */
  readonly leadsTo: string | null;

  constructor(reason: FileRefusal['reason'], message: string, leadsTo: string | null, options?: ErrorOptions) {
    super(message, options);
    this.name = 'FileRefusal';
    this.reason = reason;
    this.leadsTo = leadsTo;
  }
}

/**
 * Opening does not wait for a pipe without a writer, and does not follow a link that replaced the file after the check.
 */
const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW | constants.O_NOCTTY;

const CHUNK_BYTES = 1 << 20;

/**
 * Opens a regular file for reading. Links are followed if they lead into the folders of the rule.
 * @throws FileRefusal
 */
export async function openFile(path: string, rule: FileRule): Promise<FileFacts & { readonly handle: FileHandle }> {
  const real = resolveWithin(path, rule);
  let handle: FileHandle;
  try {
    handle = await open(real, FLAGS);
  } catch (error) {
    throw refusalOf(error, real);
  }
  try {
    return { handle, ...checkOpen(handle.fd, await handle.stat(), real, rule) };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/**
 * Reads the bytes of a regular file.
 * @throws FileRefusal
 */
export function readFileWithin(path: string, rule: FileRule & { readonly mostBytes: number }): Buffer {
  const real = resolveWithin(path, rule);
  const fd = openRegular(real, rule);
  try {
    const sizeBytes = fstatSync(fd).size;
    // One byte more than the reported size shows that the file grows.
    const bytes = Buffer.alloc(Math.min(sizeBytes, rule.mostBytes) + 1);
    let length = 0;
    for (let count = -1; count !== 0 && length < bytes.length; length += count)
      count = readSync(fd, bytes, length, bytes.length - length, null);
    if (length > sizeBytes) throw new FileRefusal('changed', 'it grew while it was read', real);
    return bytes.subarray(0, length);
  } finally {
    closeSync(fd);
  }
}

/** @throws FileRefusal */
function openRegular(real: string, rule: FileRule): number {
  let fd: number;
  try {
    fd = openSync(real, FLAGS);
  } catch (error) {
    throw refusalOf(error, real);
  }
  try {
    checkOpen(fd, fstatSync(fd), real, rule);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/**
 * Copies a regular file to a path that does not exist yet.
 * @param mode  the mode of the copy, whatever the umask
 * @throws FileRefusal for the source, NodeJS.ErrnoException for the copy
 */
export function copyFileWithin(path: string, to: string, rule: FileRule, mode: number): void {
  const real = resolveWithin(path, rule);
  const fd = openRegular(real, rule);
  try {
    const copy = openSync(to, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, mode);
    try {
      fchmodSync(copy, mode);
      const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
      for (let count = readSync(fd, chunk); count > 0; count = readSync(fd, chunk))
        for (let written = 0; written < count;) written += writeSync(copy, chunk, written, count - written);
    } finally {
      closeSync(copy);
    }
  } finally {
    closeSync(fd);
  }
}

/**
 * Opens the regular file at exactly this path, in folders that the caller has checked. A link at its end is refused.
 * The name need not be UTF-8.
 * @throws FileRefusal
 */
export async function openUnlinked(path: string | Buffer): Promise<FileHandle> {
  let handle: FileHandle;
  try {
    handle = await open(path, FLAGS);
  } catch (error) {
    throw refusalOf(error, null);
  }
  const stats = await handle.stat();
  if (stats.isFile()) return handle;
  await handle.close();
  throw new FileRefusal('not-regular', `it is ${nameKind(stats)} and no file`, null);
}

/**
 * Opens the folder at exactly this path. A link at its end is refused.
 * @param real  the path that the opened folder must have, without links; null: any
 * @throws FileRefusal
 */
export async function openFolder(path: string | Buffer, real: string | null): Promise<FileHandle> {
  let handle: FileHandle;
  try {
    handle = await open(path, FLAGS | constants.O_DIRECTORY);
  } catch (error) {
    throw refusalOf(error, real);
  }
  const found = real === null ? null : readlinkSync(`/proc/self/fd/${handle.fd}`);
  if (found === real) return handle;
  await handle.close();
  throw new FileRefusal('changed', `it leads to ${found}`, found);
}

/**
 * Returns the target of a path, which is in one of the folders.
 * @throws FileRefusal
 */
export function resolveWithin(path: string, { roots }: Pick<FileRule, 'roots'>): string {
  let real: string;
  try {
    real = realpathSync(path);
  } catch (error) {
    throw refusalOf(error, null);
  }
  if (roots === null || roots.some((root) => isWithin(real, root))) return real;
  throw new FileRefusal('outside', `it leads to ${real}, which is not in a folder that may be read for it`, real);
}

function isWithin(real: string, root: string): boolean {
  let folder: string;
  try {
    folder = realpathSync(root);
  } catch {
    return false;
  }
  return real === folder || real.startsWith(folder.endsWith('/') ? folder : `${folder}/`);
}

/** Checks that the opened file is the resolved one, and a regular file. */
function checkOpen(fd: number, stats: Stats, real: string, { mostBytes }: FileRule): FileFacts {
  if (!stats.isFile()) throw new FileRefusal('not-regular', `it is ${nameKind(stats)} and no file`, real);
  // A folder in the path may have become a link in the meantime.
  if (!isAt(fd, stats, real)) throw new FileRefusal('changed', 'it was replaced while it was opened', real);
  if (mostBytes !== undefined && stats.size > mostBytes)
    throw new FileRefusal('too-large', `it has ${stats.size} bytes, at most ${mostBytes} are read`, real);
  return { path: real, sizeBytes: stats.size };
}

function isAt(fd: number, { dev, ino }: Stats, real: string): boolean {
  if (process.platform === 'linux') return readlinkSync(`/proc/self/fd/${fd}`) === real;
  // Skills also run on systems without /proc.
  const found = lstatSync(real, { throwIfNoEntry: false });
  return found !== undefined && found.dev === dev && found.ino === ino;
}

function nameKind(stats: Stats): string {
  if (stats.isDirectory()) return 'a folder';
  if (stats.isFIFO()) return 'a pipe';
  if (stats.isSocket()) return 'a socket';
  return 'a device';
}

function refusalOf(error: unknown, real: string | null): FileRefusal {
  const { code, message } = error as NodeJS.ErrnoException;
  const refuse = (reason: FileRefusal['reason'], why: string): FileRefusal =>
    new FileRefusal(reason, why, real, { cause: error });
  switch (code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return refuse('missing', 'there is no such file');
    case 'EACCES':
    case 'EPERM':
      return refuse('denied', 'this user may not read it');
    case 'ELOOP':
      return refuse('not-regular', 'it is a link that leads nowhere');
    // A socket; a device without a driver.
    case 'ENXIO':
    case 'ENODEV':
      return refuse('not-regular', 'it is a socket or a device and no file');
    case undefined:
      throw error;
    default:
      return refuse('denied', message);
  }
}
