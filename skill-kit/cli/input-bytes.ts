/** What a client hands in, which may be a device or a pipe that never ends. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/** Far more than a history of ten thousand steps; what is read is held in memory, some times over. */
export const MOST_INPUT_BYTES = 256 * 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;

export class InputBytes {
  readonly #chunks: Uint8Array[] = [];
  #length = 0;

  /** @throws {Error} when it is too much */
  add(chunk: Uint8Array): void {
    this.#length += chunk.byteLength;
    if (this.#length > MOST_INPUT_BYTES) throw new Error(`it has more than ${MOST_INPUT_BYTES / 1024 / 1024} MiB`);
    this.#chunks.push(chunk);
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString('utf8');
  }
}

/** @throws {Error} when it cannot be read, or is too much */
export function readTextFile(path: string): string {
  const fd = openSync(path, 'r');
  try {
    const bytes = new InputBytes();
    // Of devices and pipes the size says nothing.
    const chunkBytes = Math.min(Math.max(CHUNK_BYTES, fstatSync(fd).size + 1), MOST_INPUT_BYTES + 1);
    const chunk = Buffer.allocUnsafe(chunkBytes);
    for (;;) {
      const got = readSync(fd, chunk, 0, chunkBytes, null);
      if (got === 0) return bytes.text();
      bytes.add(Buffer.from(chunk.subarray(0, got)));
    }
  } finally {
    closeSync(fd);
  }
}
