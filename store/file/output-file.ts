/**
 * Data of output pieces, outside of the log, so that readers of events do not read output. Each writing process has its
 * own file, so that it knows every offset without asking another process. A piece exists from the moment that a commit
 * names its place.
 */
import { closeSync, constants, fdatasync, mkdirSync, openSync, writeSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { OutputPlace } from './commit-log.ts';
import { createDamageError, runFileFailure } from './damage.ts';
import { errnoOf } from '../../files/errno.ts';
import { createStoreFailure, syncDir } from './layout.ts';
import { SharedSync } from './shared-sync.ts';
import { quote } from '../../domain/units/quote.ts';

const sync = promisify(fdatasync);
const FILE_NAME = /^[a-z0-9-]{1,64}$/;

export class OutputFileWriter {
  readonly #dir: string;
  readonly #name: string;
  #fd: number | null = null;
  #size = 0;
  #syncedBytes = 0;
  #nameDurable = false;
  readonly #shared = new SharedSync(() => this.#sync());

  constructor(dir: string, name: string) {
    this.#dir = dir;
    this.#name = name;
  }

  /** Writes without waiting for the disk. @throws CodedError `store/io` */
  append(data: string): OutputPlace {
    const path = join(this.#dir, this.#name);
    try {
      if (this.#fd === null) {
        mkdirSync(this.#dir, { recursive: true, mode: 0o700 });
        this.#fd = openSync(path, 'wx', 0o600);
      }
      const bytes = Buffer.from(data, 'utf8');
      const offset = this.#size;
      for (let done = 0; done < bytes.length;) {
        const written = writeSync(this.#fd, bytes, done, bytes.length - done, offset + done);
        done += written;
      }
      this.#size += bytes.length;
      return { file: this.#name, offset, bytes: bytes.length };
    } catch (error) {
      throw createStoreFailure('cannot write', path, error);
    }
  }

  /** Settles when all that was appended before this call is on the disk. */
  async sync(): Promise<void> {
    if (this.#fd !== null && this.#syncedBytes < this.#size) await this.#shared.run();
  }

  async #sync(): Promise<void> {
    if (this.#fd === null) return;
    const size = this.#size;
    try {
      await sync(this.#fd);
      if (!this.#nameDurable) {
        await syncDir(this.#dir);
        await syncDir(dirname(this.#dir));
        this.#nameDurable = true;
      }
      this.#syncedBytes = size;
    } catch (error) {
      throw createStoreFailure('cannot sync', join(this.#dir, this.#name), error);
    }
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }
}

/** Most pieces follow each other, so one read serves many. */
const WINDOW_BYTES = 256 * 1024;

export class OutputFileReader {
  readonly #dir: string;
  readonly #handles = new Map<string, FileHandle>();
  #window: { readonly file: string; readonly offset: number; readonly bytes: Buffer } = {
    file: '',
    offset: 0,
    bytes: Buffer.alloc(0),
  };

  constructor(dir: string) {
    this.#dir = dir;
  }

  async read(place: OutputPlace): Promise<string> {
    if (!this.#holds(place)) await this.#fill(place);
    const start = place.offset - this.#window.offset;
    return this.#window.bytes.toString('utf8', start, start + place.bytes);
  }

  async close(): Promise<void> {
    const handles = [...this.#handles.values()];
    this.#handles.clear();
    await Promise.all(handles.map((handle) => handle.close()));
  }

  #holds(place: OutputPlace): boolean {
    const { file, offset, bytes } = this.#window;
    return file === place.file && place.offset >= offset && place.offset + place.bytes <= offset + bytes.length;
  }

  async #fill(place: OutputPlace): Promise<void> {
    if (!FILE_NAME.test(place.file))
      throw createDamageError(this.#dir, `the log names ${quote(place.file)}, which is not the name of an output file`);
    const path = join(this.#dir, place.file);
    try {
      let handle = this.#handles.get(place.file);
      if (handle === undefined) {
        handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
        this.#handles.set(place.file, handle);
      }
      // Checked before memory is allocated for the size that a changed log may name.
      const { size } = await handle.stat();
      if (place.offset + place.bytes > size)
        throw createDamageError(path, `it ends at byte ${size}, and the log names byte ${place.offset + place.bytes}`);
      const buffer = Buffer.allocUnsafe(Math.max(WINDOW_BYTES, place.bytes));
      let done = 0;
      while (done < place.bytes) {
        const { bytesRead } = await handle.read(buffer, done, buffer.length - done, place.offset + done);
        if (bytesRead === 0)
          throw createDamageError(path, `it ends before byte ${place.offset + place.bytes}, which the log names`);
        done += bytesRead;
      }
      this.#window = { file: place.file, offset: place.offset, bytes: buffer.subarray(0, done) };
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') throw createDamageError(path, 'it is missing, and the log names it', error);
      throw runFileFailure('cannot read', path, error);
    }
  }
}
