/** Reads tar streams. Holds one block and one body, so entries must be small. */
import { Buffer } from 'node:buffer';
import { BLOCK_BYTES, paddingBytes, parseHeader, parsePax, type NameEncoding, type TarHeader } from './entry.ts';

/** The most bytes of pax records and GNU long names before one entry; more is an error. */
export const META_BYTES = 64 * 1024;

/** Type letters of metadata: pax records for one entry and for all, GNU's long name and long link target. */
export const META_FLAGS = 'xgLK';

export interface TarEntry extends TarHeader {
  readonly body: Buffer;
}

/**
 * Yields the entries of a tar with their bodies.
 * @throws Error if the tar is malformed or cut short, or its bodies have more than `maxBytes` together
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

/** Adds the size of one more record. @throws Error if the records of an entry exceed `META_BYTES` */
export function addMeta(soFarBytes: number, sizeBytes: number): number {
  // A record without a body counts too: its header uses a block.
  const bytes = soFarBytes + BLOCK_BYTES + sizeBytes;
  if (bytes > META_BYTES) throw new Error(`tar: the names and records of an entry have more than ${META_BYTES} bytes`);
  return bytes;
}

/** Returns the values that a record before an entry sets, under the names that pax uses. */
export function metaOf(typeFlag: string, body: Buffer, names: NameEncoding = 'utf8'): ReadonlyMap<string, string> {
  const longName = (): string => body.toString(names).replace(/\0.*$/s, '');
  if (typeFlag === 'x') return parsePax(body, names);
  if (typeFlag === 'L') return new Map([['path', longName()]]);
  return typeFlag === 'K' ? new Map([['linkpath', longName()]]) : new Map();
}

/** Collects bytes into pieces of the requested sizes. */
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

  /** Returns null if the stream ends before `sizeBytes`. */
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
