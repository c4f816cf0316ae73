/** Reads tar streams, holding one block and, for small entries only, one body. */
import { Buffer } from 'node:buffer';
import { BLOCK_BYTES, paddingBytes, parseHeader, parsePax, type NameEncoding, type TarHeader } from './entry.ts';

/** Of the pax records and GNU's long names in front of an entry, together: beyond it they are refused. */
export const META_BYTES = 64 * 1024;

/** Pax records of one entry and of all, GNU's long name and long link target. */
export const META_FLAGS = 'xgLK';

export interface TarEntry extends TarHeader {
  readonly body: Buffer;
}

/**
 * Entries of a tar with their bodies.
 * @throws Error when the tar is malformed, cut short, or holds more than `maxBytes` in all
 */
export async function* readTar(
  bytes: AsyncIterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<TarEntry, void, void> {
  const reader = new BlockReader(bytes);
  try {
    yield* entriesOf(reader, maxBytes);
  } finally {
    await reader.close();
  }
}

async function* entriesOf(reader: BlockReader, maxBytes: number): AsyncGenerator<TarEntry, void, void> {
  let extra: ReadonlyMap<string, string> = new Map();
  let extraBytes = 0;
  let takenBytes = 0;
  for (;;) {
    const block = await reader.take(BLOCK_BYTES);
    if (block === null) throw new Error('tar: it was cut short, its end marker is missing');
    const header = parseHeader(block);
    if (header === null) return;
    takenBytes += header.sizeBytes;
    if (takenBytes > maxBytes) throw new Error(`tar: more than ${maxBytes} bytes`);
    const isMeta = META_FLAGS.includes(header.typeFlag);
    if (isMeta) extraBytes = addMeta(extraBytes, header.sizeBytes);
    const padded = await reader.take(header.sizeBytes + paddingBytes(header.sizeBytes));
    if (padded === null) throw new Error(`tar: it was cut short in ${header.path}`);
    const body = padded.subarray(0, header.sizeBytes);
    if (isMeta) {
      extra = new Map([...extra, ...metaOf(header.typeFlag, body)]);
      continue;
    }
    yield {
      ...header,
      path: extra.get('path') ?? header.path,
      linkTarget: extra.get('linkpath') ?? header.linkTarget,
      body,
    };
    extra = new Map();
    extraBytes = 0;
  }
}

/** With a record more. @throws Error where an entry has too much of them */
export function addMeta(soFarBytes: number, sizeBytes: number): number {
  // A record without a body is one all the same.
  const bytes = soFarBytes + BLOCK_BYTES + sizeBytes;
  if (bytes > META_BYTES) throw new Error(`tar: the names and records of an entry have more than ${META_BYTES} bytes`);
  return bytes;
}

/** What a record in front of an entry says of it, under pax's names. */
export function metaOf(typeFlag: string, body: Buffer, names: NameEncoding = 'utf8'): ReadonlyMap<string, string> {
  const longName = (): string => body.toString(names).replace(/\0.*$/s, '');
  if (typeFlag === 'x') return parsePax(body, names);
  if (typeFlag === 'L') return new Map([['path', longName()]]);
  return typeFlag === 'K' ? new Map([['linkpath', longName()]]) : new Map();
}

/** Gathers bytes into pieces of asked sizes. */
class BlockReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #held: Buffer = Buffer.alloc(0);

  constructor(bytes: AsyncIterable<Uint8Array>) {
    this.#chunks = bytes[Symbol.asyncIterator]();
  }

  /** The source of the bytes keeps a file or a connection open until this call. */
  async close(): Promise<void> {
    await this.#chunks.return?.();
  }

  /** Null when the stream ends before `sizeBytes`. */
  async take(sizeBytes: number): Promise<Buffer | null> {
    const parts: Buffer[] = [this.#held];
    let heldBytes = this.#held.length;
    while (heldBytes < sizeBytes) {
      const next = await this.#chunks.next();
      if (next.done === true) return null;
      parts.push(Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength));
      heldBytes += next.value.length;
    }
    const all = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
    this.#held = all.subarray(sizeBytes);
    return all.subarray(0, sizeBytes);
  }
}
