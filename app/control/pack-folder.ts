/**
 * Packs a folder of this machine as a tar for a service on another machine. The folder is walked by descriptors, and no
 * link in it is followed.
 */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { constants, type Dirent, type Stats } from 'node:fs';
import { type FileHandle, open, readdir, readlink } from 'node:fs/promises';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { formatBytes } from '../../domain/units/bytes.ts';
import { endMarker, paddingBytes, writeHeader } from '../../tar/entry.ts';
import { cleanPath, linkStaysInside } from '../../tar/inside.ts';
import { AppError } from '../app-error.ts';

const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const FILE_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const READ_BYTES = 1024 * 1024;

export interface PackLimits {
  readonly entries: number;
  /** Contents of files. */
  readonly bytes: number;
}

/** The limits of the service. */
export const PACK_LIMITS: PackLimits = { entries: 100_000, bytes: 2 * 1024 ** 3 };

export interface PackedFolder {
  readonly sha256: string;
  readonly sizeBytes: number;
}

/** Decides about each entry by its path in the folder. A folder that is not packed is not read. */
export type PackFilter = (path: string) => boolean;

/** Gets the path of a link in the folder that leads out of it, as text for people. */
export type OnLeftOut = (path: string) => void;

function packAll(): boolean {
  return true;
}

/** Reads the whole folder for its hash, so that a folder which the service has is not sent. @throws AppError */
export async function measureFolder(
  path: string,
  limits: PackLimits = PACK_LIMITS,
  isPacked: PackFilter = packAll,
  onLeftOut: OnLeftOut = () => undefined,
): Promise<PackedFolder> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const piece of generateTar(path, limits, isPacked, onLeftOut)) {
    hash.update(piece);
    sizeBytes += piece.byteLength;
  }
  return { sha256: hash.digest('hex'), sizeBytes };
}

/**
 * Yields the tar. The same content gives the same bytes: names are sorted, and times are left out. Links that lead out
 * of the folder, sockets, pipes and devices are left out, as in a mount of this machine.
 * @throws AppError `cli/mount-refused`, `cli/mount-missing`
 */
export async function* generateTar(
  path: string,
  limits: PackLimits = PACK_LIMITS,
  isPacked: PackFilter = packAll,
  onLeftOut: OnLeftOut = () => undefined,
): AsyncGenerator<Uint8Array> {
  const pack: Pack = { folder: path, limits, isPacked, onLeftOut, entries: 0, bytes: 0 };
  const handle = await tryReading(pack, '', () => open(path, FOLDER_FLAGS));
  try {
    yield* packEntries(pack, handle!, '');
  } finally {
    await handle!.close();
  }
  yield endMarker();
}

/** The state of one pack. */
interface Pack {
  readonly folder: string;
  readonly limits: PackLimits;
  readonly isPacked: PackFilter;
  readonly onLeftOut: OnLeftOut;
  entries: number;
  bytes: number;
}

async function* packEntries(pack: Pack, folder: FileHandle, path: string): AsyncGenerator<Uint8Array> {
  const read = await tryReading(pack, path, () =>
    readdir(`/proc/self/fd/${folder.fd}`, { withFileTypes: true, encoding: 'buffer' }),
  );
  const entries = (read ?? []).toSorted((one, other) => Buffer.compare(one.name, other.name));
  for (const entry of entries) {
    const name = entry.name.toString('latin1');
    yield* packEntry(pack, folder, entry, path === '' ? name : `${path}/${name}`);
  }
}

async function* packEntry(
  pack: Pack,
  folder: FileHandle,
  entry: Dirent<Buffer>,
  path: string,
): AsyncGenerator<Uint8Array> {
  // A filter names files by their text.
  if (!pack.isPacked(Buffer.from(path, 'latin1').toString())) return;
  if (cleanPath(path) === null)
    throw createRefusal(pack, `${quotePath(path)} is nested too deeply, or its path is too long`);
  const at = Buffer.concat([Buffer.from(`/proc/self/fd/${folder.fd}/`), entry.name]);
  const common = { names: 'latin1', sizeBytes: 0 } as const;
  if (entry.isSymbolicLink()) {
    const target = await tryReading(pack, path, () => readlink(at, { encoding: 'latin1' }));
    if (target === null) return;
    if (!linkStaysInside(path, target)) return pack.onLeftOut(sanitizeLine(Buffer.from(path, 'latin1').toString()));
    countEntry(pack, 0);
    yield writeHeader({ ...common, path, typeFlag: '2', mode: 0o777, linkTarget: target });
  } else if (entry.isDirectory()) {
    const handle = await tryReading(pack, path, () => open(at, FOLDER_FLAGS));
    if (handle === null) return;
    try {
      countEntry(pack, 0);
      yield writeHeader({ ...common, path: `${path}/`, typeFlag: '5', mode: 0o755 });
      yield* packEntries(pack, handle, path);
    } finally {
      await handle.close();
    }
  } else if (entry.isFile()) {
    const handle = await tryReading(pack, path, () => open(at, FILE_FLAGS));
    if (handle === null) return;
    try {
      yield* generateFile(pack, handle, path);
    } finally {
      await handle.close();
    }
  }
}

async function* generateFile(pack: Pack, file: FileHandle, path: string): AsyncGenerator<Uint8Array> {
  const facts: Stats = await file.stat();
  if (!facts.isFile()) return;
  countEntry(pack, facts.size);
  // The bit for programs is all that a mount shows of the mode.
  const mode = (facts.mode & 0o100) === 0 ? 0o644 : 0o755;
  yield writeHeader({ path, typeFlag: '0', mode, sizeBytes: facts.size, names: 'latin1' });
  for (let left = facts.size; left > 0;) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(Math.min(left, READ_BYTES)), 0, undefined, null);
    if (bytesRead === 0) throw createRefusal(pack, `${quotePath(path)} became shorter while it was read`);
    yield buffer.subarray(0, bytesRead);
    left -= bytesRead;
  }
  yield Buffer.alloc(paddingBytes(facts.size));
}

function countEntry(pack: Pack, bytes: number): void {
  const { limits } = pack;
  pack.entries += 1;
  pack.bytes += bytes;
  if (pack.entries > limits.entries) throw createRefusal(pack, `it has more than ${limits.entries} files and folders`);
  if (pack.bytes > limits.bytes) throw createRefusal(pack, `its files have more than ${formatBytes(limits.bytes)}`);
}

/** @returns null for an entry that was removed or replaced after its folder was read */
async function tryReading<T>(pack: Pack, path: string, read: () => Promise<T>): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (path !== '' && (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP')) return null;
    const place = path === '' ? '' : ` at ${quotePath(path)}`;
    throw createRefusal(pack, `it cannot be read${place}: ${message}`);
  }
}

function createRefusal({ folder }: Pack, why: string): AppError {
  return new AppError(
    'environment',
    'cli/mount-refused',
    `the folder ${sanitizeLine(folder)} cannot be sent to the service: ${why}`,
    'Mount a smaller folder at rest, whose files this user can read.',
  );
}

function quotePath(path: string): string {
  return sanitizeLine(Buffer.from(path, 'latin1').toString());
}
