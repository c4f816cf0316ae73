/** Unpacks archives as a stream. Their first bytes determine the compression, whatever their names are. */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { pipeline, Readable } from 'node:stream';
import zlib from 'node:zlib';
import { ImageError } from './image-error.ts';
import type { ImageLimits } from './image-limits.ts';

const GZIP = [0x1f, 0x8b];
const ZSTD = [0x28, 0xb5, 0x2f, 0xfd];
/** Formats that are recognised but not supported. */
const OTHERS: readonly (readonly [string, readonly number[]])[] = [
  ['xz', [0xfd, 0x37, 0x7a, 0x58, 0x5a]],
  ['bzip2', [0x42, 0x5a, 0x68]],
  ['lz4', [0x04, 0x22, 0x4d, 0x18]],
];
const MAGIC_BYTES = 6;

/**
 * Yields the tar in the archive, at most `streamBytes`.
 * @param what  the archive, for messages
 */
export async function* unpackTar(
  bytes: AsyncIterable<Uint8Array>,
  what: string,
  limits: Pick<ImageLimits, 'streamBytes'>,
): AsyncGenerator<Uint8Array, void, void> {
  const { first, all, close } = await peek(bytes);
  let count = 0;
  try {
    for await (const chunk of decompressed(first, all, what)) {
      count += chunk.length;
      if (count > limits.streamBytes)
        throw new ImageError(
          `${what} has more than ${limits.streamBytes} bytes when it is unpacked.`,
          'Use a smaller image.',
        );
      yield chunk;
    }
  } catch (error) {
    if (error instanceof ImageError || typeof (error as NodeJS.ErrnoException).code !== 'string') throw error;
    throw new ImageError(`${what} cannot be unpacked: ${(error as Error).message}.`, 'Make the image again.');
  } finally {
    await close();
  }
}

function decompressed(first: Buffer, all: AsyncIterable<Uint8Array>, what: string): AsyncIterable<Uint8Array> {
  const begins = (magic: readonly number[]): boolean => magic.every((byte, at) => first[at] === byte);
  // `pipeline` ends both streams if one fails; the stream itself reports the error to its reader.
  const pipeThrough = (stream: zlib.Gunzip): AsyncIterable<Uint8Array> =>
    pipeline(Readable.from(all, { objectMode: false }), stream, () => undefined);
  if (begins(GZIP)) return pipeThrough(zlib.createGunzip());
  if (begins(ZSTD)) {
    const { createZstdDecompress } = zlib as { createZstdDecompress?: () => zlib.Gunzip };
    if (createZstdDecompress !== undefined) return pipeThrough(createZstdDecompress());
    throw new ImageError(
      `${what} is compressed with zstd, which this Node.js does not know.`,
      'Use Node.js 22.15 or newer, or compress it with gzip.',
    );
  }
  const other = OTHERS.find(([, magic]) => begins(magic));
  if (other !== undefined)
    throw new ImageError(`${what} is compressed with ${other[0]}.`, 'Compress it with gzip or zstd, or not at all.');
  return all;
}

/** Returns the first bytes, and a stream of all bytes. */
async function peek(
  bytes: AsyncIterable<Uint8Array>,
): Promise<{ first: Buffer; all: AsyncIterable<Uint8Array>; close: () => Promise<void> }> {
  const chunks = bytes[Symbol.asyncIterator]();
  const held: Uint8Array[] = [];
  let heldBytes = 0;
  while (heldBytes < MAGIC_BYTES) {
    const next = await chunks.next();
    if (next.done === true) break;
    held.push(next.value);
    heldBytes += next.value.length;
  }
  async function* all(): AsyncGenerator<Uint8Array, void, void> {
    yield* held;
    for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) yield next.value;
  }
  return {
    first: Buffer.concat(held).subarray(0, MAGIC_BYTES),
    all: all(),
    close: async () => void (await chunks.return?.()),
  };
}

/** Passes the bytes on, and throws at their end if they differ from the expected ones. */
export async function* verifyStream(
  bytes: AsyncIterable<Uint8Array>,
  sha256: string,
  what: string,
): AsyncGenerator<Uint8Array, void, void> {
  const hash = createHash('sha256');
  for await (const chunk of bytes) {
    hash.update(chunk);
    yield chunk;
  }
  const found = hash.digest('hex');
  if (found !== sha256)
    throw new ImageError(
      `${what} is damaged: its SHA-256 is ${found}, and ${sha256} is expected.`,
      'Make or copy the image again.',
    );
}
