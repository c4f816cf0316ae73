/**
 * Reads a folder as an image. It is walked by descriptors, and no link in it is followed, so files outside of it are
 * never read.
 */
import { Buffer } from 'node:buffer';
import { createHash, type Hash } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { lstat, open, readdir, readlink, type FileHandle } from 'node:fs/promises';
import { MAX_DEPTH } from '../../tar/inside.ts';
import { type Blobs, OWN_FOLDERS } from './fill-tree.ts';
import { ImageError, formatPath } from './image-error.ts';
import type { ImageLimits } from './image-limits.ts';
import type { ImageTree } from './image-tree.ts';

const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const FILE_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const READ_BYTES = 1 << 20;
const LAYER = 1;

/** Receives the files of a folder, in an order that does not depend on the file system. */
interface Visitor {
  readonly folder: (facts: Facts) => void;
  readonly link: (facts: Facts, target: string) => void;
  readonly file: (facts: Facts, sizeBytes: number, body: AsyncIterable<Uint8Array>) => Promise<void>;
}
interface Facts {
  readonly path: string;
  readonly mode: number;
  readonly modifiedS: number;
}

/** Returns a SHA-256 of names, permissions, times and contents. */
export async function hashFolder(path: string, limits: ImageLimits): Promise<string> {
  const hash = createHash('sha256');
  const counter = new Counter(limits);
  await walkFolder(path, {
    folder: (facts) => {
      counter.entry(facts.path);
      note(hash, 'dir', facts);
    },
    link: (facts, target) => {
      counter.entry(facts.path);
      note(hash, 'symlink', facts, target);
    },
    file: async (facts, sizeBytes, body) => {
      counter.entry(facts.path);
      counter.content(facts.path, sizeBytes);
      note(hash, 'file', facts, String(sizeBytes));
      for await (const chunk of body) hash.update(chunk);
    },
  });
  return hash.digest('hex');
}

/** Fills the tree. @returns the value that `hashFolder` returns for the same files */
export async function fillFromFolder(tree: ImageTree, blobs: Blobs, path: string): Promise<string> {
  const hash = createHash('sha256');
  await walkFolder(path, {
    folder: (facts) => {
      note(hash, 'dir', facts);
      tree.addFolder(facts, LAYER);
    },
    link: (facts, target) => {
      note(hash, 'symlink', facts, target);
      tree.addLink(facts, target, LAYER);
    },
    file: async (facts, sizeBytes, body) => {
      note(hash, 'file', facts, String(sizeBytes));
      tree.addFile(facts, await blobs.add(facts.path, sizeBytes, hashStream(body, hash)), LAYER);
    },
  });
  return hash.digest('hex');
}

async function* hashStream(body: AsyncIterable<Uint8Array>, hash: Hash): AsyncGenerator<Uint8Array, void, void> {
  for await (const chunk of body) {
    hash.update(chunk);
    yield chunk;
  }
}

/**
 * Hashes an entry. Names are bytes, and their lengths precede them, so that no name can imitate the following fields.
 */
function note(hash: Hash, kind: string, { path, mode, modifiedS }: Facts, more = ''): void {
  hash.update(`${kind} ${mode.toString(8)} ${modifiedS} ${path.length} ${more.length}\n`);
  hash.update(Buffer.from(path + more, 'latin1'));
}

/** Checks the limits before anything is written. */
class Counter {
  readonly #limits: ImageLimits;
  #entries = 0;
  #bytes = 0;

  constructor(limits: ImageLimits) {
    this.#limits = limits;
  }

  entry(path: string): void {
    this.#entries += 1;
    if (this.#entries > this.#limits.entries)
      throw createTooMuchError(`more than ${this.#limits.entries} entries`, path);
  }

  content(path: string, sizeBytes: number): void {
    this.#bytes += sizeBytes;
    if (this.#bytes > this.#limits.contentBytes)
      throw createTooMuchError(`files of more than ${this.#limits.contentBytes} bytes`, path);
  }
}

function createTooMuchError(what: string, path: string): ImageError {
  return new ImageError(
    `The image has ${what}; ${formatPath(path)} is one too many.`,
    'Use a smaller image, or name the folder that holds its root.',
  );
}

async function walkFolder(path: string, visitor: Visitor): Promise<void> {
  const handle = await open(path, FOLDER_FLAGS).catch((error: Error) => {
    throw new ImageError(
      `The image ${path} cannot be read: ${error.message}.`,
      'Name a folder that this user can read.',
    );
  });
  try {
    await walkOpen(handle, [], visitor);
  } finally {
    await handle.close();
  }
}

async function walkOpen(folder: FileHandle, above: readonly string[], visitor: Visitor): Promise<void> {
  if (above.length >= MAX_DEPTH) throw createTooMuchError(`folders in more than ${MAX_DEPTH} others`, above.join('/'));
  for (const name of (await readdir(`/proc/self/fd/${folder.fd}`, { encoding: 'latin1' })).sort()) {
    const path = [...above, name].join('/');
    const at = Buffer.concat([Buffer.from(`/proc/self/fd/${folder.fd}/`), Buffer.from(name, 'latin1')]);
    const stats = await lstat(at);
    const facts = { path, mode: stats.mode & 0o7777, modifiedS: Math.max(0, Math.floor(stats.mtimeMs / 1000)) };
    if (stats.isDirectory()) {
      visitor.folder(facts);
      if (above.length > 0 || !OWN_FOLDERS.includes(name))
        await openWithin(at, FOLDER_FLAGS, path, (child) => walkOpen(child, [...above, name], visitor));
    } else if (stats.isSymbolicLink())
      visitor.link(facts, (await readlink(at, { encoding: 'buffer' })).toString('latin1'));
    else if (stats.isFile()) await openWithin(at, FILE_FLAGS, path, (file) => visitFile(file, stats, facts, visitor));
    else
      throw new ImageError(
        `${formatPath(path)} of the image is a device, a pipe or a socket.`,
        'Remove it: a guest has its own devices in /dev.',
      );
  }
}

async function openWithin(
  at: Buffer,
  flags: number,
  path: string,
  use: (handle: FileHandle) => Promise<void>,
): Promise<void> {
  const handle = await open(at, flags).catch((error: NodeJS.ErrnoException) => {
    throw new ImageError(
      `${formatPath(path)} of the image cannot be read (${error.code}).`,
      'Give this user the right to read it, or use a tar.',
    );
  });
  try {
    await use(handle);
  } finally {
    await handle.close();
  }
}

async function visitFile(file: FileHandle, seen: Stats, facts: Facts, visitor: Visitor): Promise<void> {
  const { size, ino } = await file.stat();
  if (size !== seen.size || ino !== seen.ino) throw createChangedError(facts.path);
  await visitor.file(facts, size, readExactly(file, size, facts.path));
}

async function* readExactly(file: FileHandle, sizeBytes: number, path: string): AsyncGenerator<Uint8Array, void, void> {
  for (let at = 0; at < sizeBytes;) {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(Math.min(READ_BYTES, sizeBytes - at)), 0, null, at);
    if (bytesRead === 0) throw createChangedError(path);
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

function createChangedError(path: string): ImageError {
  return new ImageError(
    `${formatPath(path)} of the image changed while it was read.`,
    'Run again when no other program writes to the image.',
  );
}
