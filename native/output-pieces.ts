/** Parses pieces of `exec.outputs` (docs/reference/keeper.md): a byte for the stream, the length as 32 bits, the bytes. */
import { Buffer } from 'node:buffer';
import { CodedError } from '../domain/errors/coded-error.ts';
import type { OutputPiece, OutputStream } from './api.ts';

const HEAD_BYTES = 5;
/** The longest piece that a keeper sends. */
const MAX_PIECE_BYTES = 1024 * 1024;
const STREAMS: readonly (OutputStream | null)[] = [null, 'stdout', 'stderr'];

/**
 * Yields bytes as they arrive, however the chunks split the pieces.
 * @param what  the beginning of messages
 * @returns true after the piece that ends both streams; false if the chunks end earlier
 * @throws CodedError `vm/protocol` for bytes that are not a piece
 */
export async function* readOutputPieces(
  chunks: AsyncIterable<Uint8Array>,
  what: string,
): AsyncGenerator<OutputPiece, boolean, void> {
  let head = Buffer.alloc(0);
  let stream: OutputStream = 'stdout';
  let leftBytes = 0;
  for await (const chunk of chunks) {
    let at = 0;
    while (at < chunk.length) {
      if (leftBytes > 0) {
        const bytes = chunk.subarray(at, at + leftBytes);
        at += bytes.length;
        leftBytes -= bytes.length;
        yield { stream, bytes };
        continue;
      }
      const part = chunk.subarray(at, at + HEAD_BYTES - head.length);
      head = Buffer.concat([head, part]);
      at += part.length;
      if (head.length < HEAD_BYTES) continue;
      const named = STREAMS[head[0]!];
      leftBytes = head.readUInt32BE(1);
      head = Buffer.alloc(0);
      if (named === null && leftBytes === 0) return true;
      if (named === undefined || named === null || leftBytes === 0 || leftBytes > MAX_PIECE_BYTES)
        throw new CodedError('vm/protocol', `${what}: a piece of ${leftBytes} bytes of no stream`);
      stream = named;
    }
  }
  return false;
}
