/** Reads a client's input, which may be a device or a pipe that never ends. */
import { resolve } from 'node:path';
import { readNamedFile } from '../../files/named-file.ts';

/** Far more than a history of ten thousand steps; what is read is held in memory, some times over. */
export const MOST_INPUT_BYTES = 256 * 1024 * 1024;

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

/** @throws {Error} when it cannot be read, is no file, or is too much */
export function readTextFile(path: string): string {
  return readNamedFile(resolve(path), MOST_INPUT_BYTES).toString('utf8');
}
