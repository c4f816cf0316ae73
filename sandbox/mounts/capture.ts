/** Captures a host folder once, as a tar file and a manifest, with which every VM of a scope starts. */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { mkdir, open, rename, rm, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { MountKey } from '../../activities/ports/mounts.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { syncFolder } from '../../files/publish-folder.ts';
import { endMarker, paddingBytes, writeHeader } from '../../tar/entry.ts';
import { cleanPath, linkStaysInside } from '../../tar/inside.ts';
import { errno, Folder, isAbsent } from './folder.ts';
import { ManifestLimit, toPrintablePath, writeManifest, type MountEntry } from './manifest.ts';
import { isStaging } from './staging.ts';

export const CAPTURE_TAR = 'capture.tar';
export const CAPTURE_MANIFEST = 'capture.jsonl';

/**
 * The number of attempts for a file that changes each time while it is read, because half a file must not be captured.
 */
const TRIES = 3;
const BUFFER_BYTES = 1024 * 1024;

export interface CaptureLimits {
  /** The size of the VM's disk, which could not hold a larger folder. */
  readonly maxBytes: number;
}

/**
 * Captures `hostPath` into the folder `into`, which appears whole or not at all. An existing folder `into` is kept.
 * @throws CodedError `mount/unusable` for a folder that cannot be read or is too large, `store/io`
 */
export async function captureFolder(
  { hostPath }: Pick<MountKey, 'hostPath'>,
  into: string,
  limits: CaptureLimits,
  signal: AbortSignal,
): Promise<void> {
  const partial = `${into}.partial-${process.pid}-${Date.now().toString(36)}`;
  try {
    await codeStoreErrors(`cannot make ${partial}`, async () => {
      await makeFolders(dirname(into));
      await mkdir(partial, { mode: 0o700 });
    });
    for (let tries = 1; !(await new Capture(hostPath, limits, signal).run(partial)); tries += 1) {
      if (tries === TRIES)
        throw createUnusableError(hostPath, 'a file in it changed each time that it was read; mount a folder at rest');
    }
    await codeStoreErrors(`cannot keep the capture of ${hostPath}`, () => place(partial, into));
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
}

/** Makes the folder and the folders above it, and syncs them to the disk. */
async function makeFolders(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = path; made.length >= first.length; made = dirname(made)) await syncFolder(dirname(made));
}

/** Keeps the first capture: a rename onto a folder that is not empty fails. */
async function place(partial: string, into: string): Promise<void> {
  try {
    await rename(partial, into);
  } catch (error) {
    if (errno(error) !== 'ENOTEMPTY' && errno(error) !== 'EEXIST') throw error;
  }
  await syncFolder(dirname(into));
}

/** The folder changed while it was read. */
class Torn extends Error {}

class Capture {
  readonly #hostPath: string;
  readonly #limits: CaptureLimits;
  readonly #signal: AbortSignal;
  readonly #entries = new Map<string, MountEntry>();
  readonly #limit = new ManifestLimit();
  #bytes = 0;
  #isTorn = false;

  constructor(hostPath: string, limits: CaptureLimits, signal: AbortSignal) {
    this.#hostPath = hostPath;
    this.#limits = limits;
    this.#signal = signal;
  }

  /** Returns false if a file changed while it was read. */
  async run(into: string): Promise<boolean> {
    const root = await this.#reading('', () => Folder.open(this.#hostPath));
    const tar = new TarFile(
      await codeStoreErrors('cannot write a capture', () => open(join(into, CAPTURE_TAR), 'w', 0o600)),
    );
    try {
      await this.#folder(root, '', tar);
      await tar.finish();
    } catch (error) {
      if (!(error instanceof Torn)) throw error;
      this.#isTorn = true;
    } finally {
      await root.close();
      await tar.close();
    }
    if (this.#isTorn) return false;
    await writeManifest(join(into, CAPTURE_MANIFEST), this.#entries);
    return true;
  }

  async #folder(folder: Folder, path: string, tar: TarFile): Promise<void> {
    for (const name of await this.#reading(path, () => folder.names())) {
      this.#signal.throwIfAborted();
      // The staging folder of a killed run is not part of the folder.
      if (path === '' && isStaging(name)) continue;
      await this.#entry(folder, name, path === '' ? name : `${path}/${name}`, tar);
    }
  }

  async #entry(folder: Folder, name: string, path: string, tar: TarFile): Promise<void> {
    const stat = await this.#reading(path, () => folder.stat(name));
    // The entry was removed after its folder was read.
    if (stat === null) return;
    // A VM gets only names that could come back.
    if (cleanPath(path) === null)
      throw createUnusableError(
        this.#hostPath,
        `${toPrintablePath(path)} is nested too deeply, or its path is too long`,
      );
    const mode = Number(stat.mode) & 0o777;
    const modifiedS = Math.max(0, Number(stat.mtimeNs / 1_000_000_000n));
    if (stat.isDirectory()) {
      const inner = await this.#reading(path, () => folder.child(name));
      try {
        this.#add(path, { kind: 'dir', mode: mode | 0o700 });
        await tar.header({ path: `${path}/`, typeFlag: '5', mode: mode | 0o700, sizeBytes: 0, modifiedS });
        await this.#folder(inner, path, tar);
      } finally {
        await inner.close();
      }
    } else if (stat.isSymbolicLink()) {
      const target = await this.#reading(path, () => folder.link(name));
      // A link that leads outside is left out; in a read-only mount, it also leads nowhere.
      if (!linkStaysInside(path, target)) return;
      this.#add(path, { kind: 'link', target });
      await tar.header({ path, typeFlag: '2', mode: 0o777, sizeBytes: 0, linkTarget: target, modifiedS });
    } else if (stat.isFile()) {
      await this.#file(folder, name, path, modifiedS, tar);
    }
  }

  async #file(folder: Folder, name: string, path: string, modifiedS: number, tar: TarFile): Promise<void> {
    const file = await this.#reading(path, () => folder.openFile(name));
    try {
      const stat = await file.stat();
      if (!stat.isFile()) throw new Torn();
      this.#bytes += stat.size;
      if (this.#bytes > this.#limits.maxBytes) throw this.#tooLarge();
      const mode = stat.mode & 0o777;
      await tar.header({ path, typeFlag: '0', mode, sizeBytes: stat.size, modifiedS });
      const hash = createHash('sha256');
      let left = stat.size;
      const buffer = Buffer.allocUnsafe(Math.min(BUFFER_BYTES, Math.max(1, left)));
      while (left > 0) {
        this.#signal.throwIfAborted();
        const { bytesRead } = await this.#reading(path, () =>
          file.read(buffer, 0, Math.min(left, buffer.length), null),
        );
        // The file became shorter while it was read. The tar is discarded.
        if (bytesRead === 0) throw new Torn();
        hash.update(buffer.subarray(0, bytesRead));
        await tar.write(buffer.subarray(0, bytesRead));
        left -= bytesRead;
      }
      await tar.write(Buffer.alloc(paddingBytes(stat.size)));
      this.#add(path, { kind: 'file', mode, sizeBytes: stat.size, sha256: hash.digest('hex') });
    } finally {
      await file.close();
    }
  }

  #add(path: string, entry: MountEntry): void {
    const over = this.#limit.add(path, entry);
    if (over !== null)
      throw createUnusableError(
        this.#hostPath,
        `it holds ${over}, and each is compared after each stage: mount a smaller folder, or mount it \`ro\``,
      );
    this.#entries.set(path, entry);
  }

  #tooLarge(): CodedError {
    const mib = Math.floor(this.#limits.maxBytes / (1024 * 1024));
    return createUnusableError(
      this.#hostPath,
      `it holds more than the ${mib} MiB of the VM's disk: raise \`disk_mb\`, or mount a smaller folder`,
    );
  }

  async #reading<T>(path: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof CodedError || errno(error) === '') throw error;
      // The entry was removed or replaced after its folder was read.
      if (path !== '' && (isAbsent(error) || errno(error) === 'ELOOP')) throw new Torn();
      const place = path === '' ? '' : ` at ${toPrintablePath(path)}`;
      throw createUnusableError(
        this.#hostPath,
        `it cannot be read${place} (${errno(error)}): let the user that runs the worker read it, or mount a folder that holds less`,
      );
    }
  }
}

function createUnusableError(hostPath: string, why: string): CodedError {
  return new CodedError('mount/unusable', `the writable mount of ${hostPath}: ${why}`);
}

async function codeStoreErrors<T>(doing: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CodedError) throw error;
    throw new CodedError('store/io', `${doing}: ${(error as Error).message}`, { cause: error });
  }
}

/** A tar file that is written in large chunks. */
class TarFile {
  readonly #file: FileHandle;
  readonly #held = Buffer.allocUnsafe(BUFFER_BYTES);
  #heldBytes = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  header(entry: Omit<Parameters<typeof writeHeader>[0], 'names'>): Promise<void> {
    return this.write(writeHeader({ ...entry, names: 'latin1' }));
  }

  async write(bytes: Buffer): Promise<void> {
    let at = 0;
    while (at < bytes.length) {
      const count = bytes.copy(this.#held, this.#heldBytes, at);
      at += count;
      this.#heldBytes += count;
      if (this.#heldBytes === this.#held.length) await this.#flush();
    }
  }

  async finish(): Promise<void> {
    await this.write(endMarker());
    await this.#flush();
    await codeStoreErrors('cannot write a capture', () => this.#file.sync());
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  async #flush(): Promise<void> {
    await codeStoreErrors('cannot write a capture', () =>
      this.#file.writeFile(this.#held.subarray(0, this.#heldBytes)),
    );
    this.#heldBytes = 0;
  }
}
