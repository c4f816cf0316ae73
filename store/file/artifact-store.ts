/** Bytes by their hash, in read-only files below a state folder. */
import { createHash, randomBytes } from 'node:crypto';
import { statSync, utimesSync } from 'node:fs';
import { link, open, rename, rm, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ArtifactStore } from '../../activities/ports/artifacts.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import { isSha256 } from '../../domain/units/sha256.ts';
import { createDamageError, runFileFailure } from './damage.ts';
import { artifactsDir, DurableFolders, createStoreFailure, syncDir } from './layout.ts';
import { errnoOf } from '../../files/errno.ts';
import { makePrivateDir } from '../state-folder.ts';

const READ_BYTES = 256 * 1024;
/** Up to this size bytes are hashed in memory first, so bytes that are already stored touch no disk. */
const MEMORY_BYTES = 256 * 1024;

export function createFileArtifactStore(stateDir: string): ArtifactStore {
  const dir = artifactsDir(stateDir);
  const folders = new DurableFolders(stateDir);
  return {
    put: async (bytes, mediaType) => {
      try {
        return await put(dir, folders, bytes, mediaType);
      } catch (error) {
        // A failure of the source belongs to its caller, not to the store.
        if (errnoOf(error) === undefined) throw error;
        throw createStoreFailure('cannot store below', dir, error);
      }
    },
    claim: (ref) => Promise.resolve(isSha256(ref.sha256) && claim(dir, ref)),
    open: (ref, offset = 0) => read(dir, ref, offset),
  };
}

export function artifactPath(dir: string, sha256: string): string {
  return join(dir, sha256.slice(0, 2), sha256);
}

/** The place where prune keeps an artifact until it has decided. */
export function trashPath(dir: string, sha256: string): string {
  return join(dir, '.trash', sha256);
}

export function partialDir(dir: string): string {
  return join(dir, '.partial');
}

async function put(
  dir: string,
  folders: DurableFolders,
  bytes: AsyncIterable<Uint8Array>,
  mediaType: string,
): Promise<DataRef> {
  const hash = createHash('sha256');
  const partial = new PartialFile(dir, folders);
  try {
    let sizeBytes = 0;
    for await (const chunk of bytes) {
      hash.update(chunk);
      sizeBytes += chunk.byteLength;
      await partial.write(chunk);
    }
    const sha256 = hash.digest('hex');
    const path = artifactPath(dir, sha256);
    if (!claimAt(path, sizeBytes)) await partial.publish(path);
    return { sha256, sizeBytes, mediaType };
  } finally {
    await partial.discard();
  }
}

/** Prune moves an artifact aside and back. A search here, there and here again cannot miss it. */
function claim(dir: string, { sha256, sizeBytes }: DataRef): boolean {
  const path = artifactPath(dir, sha256);
  try {
    return [path, trashPath(dir, sha256), path].some((place) => claimAt(place, sizeBytes));
  } catch (error) {
    throw createStoreFailure('cannot claim', path, error);
  }
}

/** Renews the file's time, so that prune sees that a process relies on the artifact again. */
function claimAt(path: string, sizeBytes: number): boolean {
  try {
    if (statSync(path).size !== sizeBytes) return false;
    const now = new Date();
    utimesSync(path, now, now);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/** Bytes that have no name yet: in memory while they are few, then in a file next to the artifacts. */
class PartialFile {
  readonly #dir: string;
  readonly #folders: DurableFolders;
  /** Chosen when a file is needed, because most bytes that are stored again fit into memory. */
  #path = '';
  #memory: Uint8Array[] = [];
  #memoryBytes = 0;
  #handle: FileHandle | null = null;
  #exists = false;

  constructor(dir: string, folders: DurableFolders) {
    this.#dir = partialDir(dir);
    this.#folders = folders;
  }

  async write(chunk: Uint8Array): Promise<void> {
    if (this.#handle === null && this.#memoryBytes + chunk.byteLength <= MEMORY_BYTES) {
      // The source may use its buffer again.
      this.#memory.push(Uint8Array.from(chunk));
      this.#memoryBytes += chunk.byteLength;
      return;
    }
    await writeAll(await this.#opened(), chunk);
  }

  async publish(path: string): Promise<void> {
    const handle = await this.#opened();
    await handle.chmod(0o400);
    await handle.sync();
    await this.#close();
    const folder = dirname(path);
    await this.#folders.make(folder);
    await rename(this.#path, path);
    this.#exists = false;
    await syncDir(folder);
  }

  async discard(): Promise<void> {
    await this.#close();
    if (this.#exists) await rm(this.#path, { force: true });
    this.#exists = false;
  }

  async #opened(): Promise<FileHandle> {
    if (this.#handle !== null) return this.#handle;
    this.#folders.keepFormat();
    await makePrivateDir(this.#dir);
    this.#path = join(this.#dir, randomBytes(12).toString('hex'));
    this.#handle = await open(this.#path, 'wx', 0o600);
    this.#exists = true;
    for (const chunk of this.#memory) await writeAll(this.#handle, chunk);
    this.#memory = [];
    this.#memoryBytes = 0;
    return this.#handle;
  }

  async #close(): Promise<void> {
    const handle = this.#handle;
    this.#handle = null;
    await handle?.close();
  }
}

async function writeAll(handle: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let done = 0; done < chunk.byteLength;) {
    done += (await handle.write(chunk, done, chunk.byteLength - done)).bytesWritten;
  }
}

/** Yields from `offset` but hashes from the first byte, so that wrong bytes never pass as the ref's. */
async function* read(dir: string, ref: DataRef, offset: number): AsyncGenerator<Uint8Array> {
  if (!isSha256(ref.sha256))
    throw new CodedError('store/damaged', `${JSON.stringify(ref.sha256)} is not the sha256 of an artifact`);
  if (!Number.isSafeInteger(offset) || offset < 0)
    throw new RangeError(`offset ${offset} is not a position in an artifact`);
  const path = artifactPath(dir, ref.sha256);
  const handle = await openArtifact(dir, ref.sha256);
  try {
    const hash = createHash('sha256');
    for (let position = 0; ;) {
      const chunk = Buffer.allocUnsafe(READ_BYTES);
      const { bytesRead } = await handle.read(chunk, 0, READ_BYTES, position);
      if (bytesRead === 0) {
        if (position !== ref.sizeBytes)
          throw createDamageError(`artifact ${path}`, `it has ${position} bytes, the run says ${ref.sizeBytes}`);
        break;
      }
      const piece = chunk.subarray(0, bytesRead);
      hash.update(piece);
      const skip = Math.max(0, offset - position);
      position += bytesRead;
      if (skip < bytesRead) yield piece.subarray(skip);
    }
    const found = hash.digest('hex');
    if (found !== ref.sha256)
      throw createDamageError(`artifact ${path}`, `its bytes hash to ${found}; remove it and run again`);
  } catch (error) {
    throw errnoOf(error) === undefined ? error : runFileFailure('cannot read', path, error);
  } finally {
    await handle.close();
  }
}

async function openArtifact(dir: string, sha256: string): Promise<FileHandle> {
  const path = artifactPath(dir, sha256);
  // Prune moves an artifact aside and back. A search here, there and here again cannot miss it.
  for (const place of [path, trashPath(dir, sha256), path]) {
    try {
      return await open(place, 'r');
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw runFileFailure('cannot open', place, error);
    }
  }
  throw createDamageError(`artifact ${path}`, 'it does not exist');
}

/** Moves an artifact back from the trash. A copy that was stored again since then stays. */
export async function restoreFromTrash(dir: string, sha256: string): Promise<void> {
  const path = artifactPath(dir, sha256);
  await makePrivateDir(dirname(path));
  try {
    await link(trashPath(dir, sha256), path);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST' && errnoOf(error) !== 'ENOENT') throw error;
  }
  await rm(trashPath(dir, sha256), { force: true });
}
