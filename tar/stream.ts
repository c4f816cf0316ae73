/** Reads tar streams entry by entry without holding a body. */
import { Buffer } from 'node:buffer';
import { BLOCK_BYTES, paddingBytes, parseHeader, type NameEncoding, type TarHeader } from './entry.ts';
import { addMeta, META_FLAGS, metaOf } from './read.ts';

export interface StreamedEntry extends TarHeader {
  /** The contents of a file. The next step of the iteration skips the bytes that the caller did not read. */
  readonly body: AsyncIterable<Uint8Array>;
  /** The offset in the stream at which the next entry begins. */
  readonly nextOffset: number;
  /** True if the contents are a map of holes and the data between them, as GNU tar writes sparse files. */
  readonly isSparse: boolean;
}

/**
 * Yields the entries up to the end marker. If the stream breaks off, throws the error of the stream, or an Error.
 * @throws Error if the tar is malformed or cut short
 */
export async function* streamTar(
  bytes: AsyncIterable<Uint8Array>,
  names: NameEncoding,
): AsyncGenerator<StreamedEntry, void, void> {
  const source = new Source(bytes);
  let extra: ReadonlyMap<string, string> = new Map();
  let extraBytes = 0;
  try {
    for (;;) {
      const block = await source.take(BLOCK_BYTES);
      const header = parseHeader(block, names);
      // Read the rest after the end marker too: a stream that fails there was not complete.
      if (header === null) return await source.drain();
      if (META_FLAGS.includes(header.typeFlag)) {
        extraBytes = addMeta(extraBytes, header.sizeBytes);
        const padded = await source.take(header.sizeBytes + paddingBytes(header.sizeBytes));
        extra = new Map([...extra, ...metaOf(header.typeFlag, padded.subarray(0, header.sizeBytes), names)]);
        continue;
      }
      // Bodies of links and folders are empty whatever their size field says.
      const sizeBytes = header.kind === 'file' || header.kind === 'other' ? header.sizeBytes : 0;
      const end = source.position + sizeBytes;
      yield {
        ...header,
        sizeBytes,
        path: extra.get('path') ?? header.path,
        linkTarget: extra.get('linkpath') ?? header.linkTarget,
        body: source.upTo(end),
        nextOffset: end + paddingBytes(sizeBytes),
        isSparse: header.typeFlag === 'S' || [...extra.keys()].some((key) => key.startsWith('GNU.sparse.')),
      };
      extra = new Map();
      extraBytes = 0;
      for await (const _ of source.upTo(end + paddingBytes(sizeBytes)));
    }
  } finally {
    await source.close();
  }
}

class Source {
  /** Bytes that were handed out. */
  position = 0;
  readonly #chunks: AsyncIterator<Uint8Array>;
  #held: Uint8Array = Buffer.alloc(0);
  #isEnded = false;

  constructor(bytes: AsyncIterable<Uint8Array>) {
    this.#chunks = bytes[Symbol.asyncIterator]();
  }

  async take(sizeBytes: number): Promise<Buffer> {
    const parts: Uint8Array[] = [];
    for await (const part of this.upTo(this.position + sizeBytes)) parts.push(part);
    return Buffer.concat(parts);
  }

  async *upTo(end: number): AsyncGenerator<Uint8Array, void, void> {
    while (this.position < end) {
      if (this.#held.length === 0 && !(await this.#pull())) throw new Error('tar: it was cut short');
      const part = this.#held.subarray(0, end - this.position);
      this.#held = this.#held.subarray(part.length);
      this.position += part.length;
      yield part;
    }
  }

  async drain(): Promise<void> {
    while (await this.#pull());
  }

  async close(): Promise<void> {
    if (!this.#isEnded) await this.#chunks.return?.();
  }

  async #pull(): Promise<boolean> {
    try {
      const next = await this.#chunks.next();
      this.#isEnded = next.done === true;
      if (next.done === true) return false;
      this.#held = next.value;
      return true;
    } catch (error) {
      this.#isEnded = true;
      throw error;
    }
  }
}
