/** Uploads by their hash, in read-only files below a state folder, and the folders of runs with unpacked uploads. */
import { createHash, randomBytes } from 'node:crypto';
import { chmod, lstat, mkdir, open, readdir, rename, rm, rmdir, utimes, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { DiskRoom } from '../../activities/ports/local-store.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { isSha256 } from '../../domain/units/sha256.ts';
import { errnoOf } from '../../files/errno.ts';
import { nameHalfFile } from '../half-files.ts';
import { findRunUploads, makePrivateDir, runDir } from '../state-folder.ts';
import type { HeldUpload, StoredUpload, UploadLimits, UploadStore } from '../uploads.ts';
import { DurableFolders, syncDir } from './layout.ts';
import { makeRunFolder } from './run-folder.ts';

/** How many bytes are written between two looks at the room of the disk. */
const ROOM_BYTES = 16 * 1024 * 1024;
const READ_BYTES = 1024 * 1024;

export interface FileUploadsOptions {
  readonly stateDir: string;
  readonly limits: UploadLimits;
  readonly now: () => number;
  readonly readRoom: () => DiskRoom;
}

export function findUploads(stateDir: string): string {
  return join(stateDir, 'uploads');
}

export function createFileUploads(options: FileUploadsOptions): UploadStore {
  return new FileUploads(options);
}

class FileUploads implements UploadStore {
  readonly #options: FileUploadsOptions;
  readonly #dir: string;
  readonly #folders: DurableFolders;
  /** The sizes of uploads that this process writes, by the paths of their half files. */
  readonly #growing = new Map<string, number>();
  /** The size of the finished uploads. */
  #storedBytes = 0;

  constructor(options: FileUploadsOptions) {
    this.#options = options;
    this.#dir = findUploads(options.stateDir);
    this.#folders = new DurableFolders(options.stateDir);
  }

  async find(sha256: string): Promise<StoredUpload | null> {
    const held = await this.hold(sha256);
    await held?.close();
    return held === null ? null : { sha256, sizeBytes: held.sizeBytes };
  }

  async put(sha256: string, bytes: AsyncIterable<Uint8Array>, announcedBytes: number | null): Promise<StoredUpload> {
    const path = this.#pathOf(sha256);
    this.requireRoom();
    if (announcedBytes !== null) this.#requireSize(announcedBytes);
    await this.sweep();
    await this.#folders.make(this.#dir);
    const half = nameHalfFile(path);
    try {
      this.#grow(half, announcedBytes ?? 0);
      // Others may use the room until the bytes arrive.
      this.#grow(half, 0);
      const sizeBytes = await this.#write(half, sha256, bytes);
      await rename(half, path);
      await syncDir(this.#dir);
      this.#storedBytes += this.#countBytes(sizeBytes);
      return { sha256, sizeBytes };
    } finally {
      this.#growing.delete(half);
      await rm(half, { force: true });
    }
  }

  /** @returns the size */
  async #write(half: string, sha256: string, bytes: AsyncIterable<Uint8Array>): Promise<number> {
    const handle = await open(half, 'wx', 0o600);
    try {
      const hash = createHash('sha256');
      let sizeBytes = 0;
      let checkedBytes = 0;
      for await (const chunk of bytes) {
        sizeBytes += chunk.byteLength;
        this.#requireSize(sizeBytes);
        this.#grow(half, sizeBytes);
        if (sizeBytes - checkedBytes >= ROOM_BYTES) {
          this.requireRoom();
          checkedBytes = sizeBytes;
        }
        hash.update(chunk);
        await writeAll(handle, chunk);
      }
      const found = hash.digest('hex');
      if (found !== sha256)
        throw new CodedError(
          'api/wrong-hash',
          `the ${sizeBytes} bytes of the upload have the hash ${found}, not ${sha256}`,
        );
      await handle.chmod(0o400);
      await handle.sync();
      return sizeBytes;
    } finally {
      await handle.close();
    }
  }

  async hold(sha256: string): Promise<HeldUpload | null> {
    const path = this.#pathOf(sha256);
    let handle: FileHandle;
    try {
      handle = await open(path, 'r');
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return null;
      throw error;
    }
    try {
      await renewTime(path, this.#options.now());
      const { size } = await handle.stat();
      return { sha256, sizeBytes: size, bytes: () => readAll(handle), close: () => handle.close() };
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  async sweep(): Promise<void> {
    const { limits, now } = this.#options;
    this.#storedBytes = await sweepUploads(this.#options.stateDir, limits, now(), (path) => this.#growing.has(path));
  }

  async makeFolder(runId: string): Promise<string> {
    this.requireRoom();
    await makeRunFolder(this.#options.stateDir, this.#folders, runId);
    await this.#folders.settle(runDir(this.#options.stateDir, runId));
    const parent = findRunUploads(this.#options.stateDir, runId);
    await makePrivateDir(parent);
    const folder = join(parent, randomBytes(8).toString('hex'));
    // A guest reads it as another user; the folder above keeps other users of this machine out.
    await mkdir(folder);
    await chmod(folder, 0o755);
    return folder;
  }

  async dropFolder(folder: string): Promise<void> {
    await rm(folder, { recursive: true, force: true });
    // Folders with other contents stay: another start of the same id has made them.
    const parent = dirname(folder);
    await rmdir(parent).catch(() => undefined);
    await rmdir(join(dirname(parent), 'records')).catch(() => undefined);
    await rmdir(dirname(parent)).catch(() => undefined);
  }

  requireRoom(): void {
    const { isLow, availableBytes } = this.#options.readRoom();
    if (isLow)
      throw new CodedError(
        'host/disk-full',
        `the disk of ${this.#options.stateDir} has only ${availableBytes} bytes left, which are for runs that have started`,
      );
  }

  #requireSize(sizeBytes: number): void {
    const { blobBytes } = this.#options.limits;
    if (sizeBytes > blobBytes) throw new CodedError('api/too-large', `the upload has more than ${blobBytes} bytes`);
  }

  /** @throws CodedError `api/uploads-full` */
  #grow(half: string, sizeBytes: number): void {
    this.#growing.set(half, this.#countBytes(sizeBytes));
    const { totalBytes } = this.#options.limits;
    let sum = this.#storedBytes;
    for (const growing of this.#growing.values()) sum += growing;
    if (sum > totalBytes)
      throw new CodedError('api/uploads-full', `all uploads together would have more than ${totalBytes} bytes`);
  }

  #countBytes(sizeBytes: number): number {
    return Math.max(sizeBytes, this.#options.limits.leastBytes);
  }

  #pathOf(sha256: string): string {
    if (!isSha256(sha256))
      throw new CodedError('api/invalid-request', `${JSON.stringify(sha256.slice(0, 100))} is not a SHA-256`);
    return join(this.#dir, sha256);
  }
}

/**
 * Deletes uploads that were not used for the time of the limits, and half files of killed processes.
 * @param isGrowing  true for half files that this process writes
 * @returns the size of the uploads that stay
 */
export async function sweepUploads(
  stateDir: string,
  { keptMs, abandonedMs, leastBytes }: Pick<UploadLimits, 'keptMs' | 'abandonedMs' | 'leastBytes'>,
  nowMs: number,
  isGrowing: (path: string) => boolean,
): Promise<number> {
  const dir = findUploads(stateDir);
  let storedBytes = 0;
  for (const name of await listNames(dir)) {
    const path = join(dir, name);
    const facts = await lstat(path).catch(() => null);
    if (facts === null) continue;
    const ageMs = nowMs - facts.mtimeMs;
    if (!isSha256(name)) {
      if (!isGrowing(path) && ageMs > abandonedMs) await rm(path, { force: true });
    } else if (ageMs > keptMs) await rm(path, { force: true });
    else storedBytes += Math.max(facts.size, leastBytes);
  }
  return storedBytes;
}

/** An upload that is deleted at this moment stays readable. */
async function renewTime(path: string, nowMs: number): Promise<void> {
  const now = new Date(nowMs);
  await utimes(path, now, now).catch((error: unknown) => {
    if (errnoOf(error) !== 'ENOENT') throw error;
  });
}

async function listNames(dir: string): Promise<readonly string[]> {
  return await readdir(dir).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  });
}

async function* readAll(handle: FileHandle): AsyncGenerator<Uint8Array, void, void> {
  for (let position = 0; ;) {
    const chunk = Buffer.allocUnsafe(READ_BYTES);
    const { bytesRead } = await handle.read(chunk, 0, READ_BYTES, position);
    if (bytesRead === 0) return;
    position += bytesRead;
    yield chunk.subarray(0, bytesRead);
  }
}

async function writeAll(handle: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let done = 0; done < chunk.byteLength;)
    done += (await handle.write(chunk, done, chunk.byteLength - done)).bytesWritten;
}
