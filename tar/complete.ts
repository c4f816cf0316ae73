/** Distinguishes a complete tar from a tar whose connection broke, without buffering it. */
import { Buffer } from 'node:buffer';
import { BLOCK_BYTES, paddingBytes, parseHeader } from './entry.ts';

/**
 * Passes the bytes of a tar through as they arrive.
 * @param onCut creates the error for a stream that ended before its end marker
 */
export async function* requireEndMarker(
  bytes: AsyncIterable<Uint8Array>,
  onCut: () => Promise<Error>,
): AsyncGenerator<Uint8Array, void, void> {
  const header = Buffer.alloc(BLOCK_BYTES);
  let headerBytes = 0;
  let skipBytes = 0;
  let isEnded = false;
  for await (const chunk of bytes) {
    let at = 0;
    while (at < chunk.length && !isEnded) {
      if (skipBytes > 0) {
        const step = Math.min(skipBytes, chunk.length - at);
        skipBytes -= step;
        at += step;
        continue;
      }
      const step = Math.min(BLOCK_BYTES - headerBytes, chunk.length - at);
      header.set(chunk.subarray(at, at + step), headerBytes);
      headerBytes += step;
      at += step;
      if (headerBytes < BLOCK_BYTES) continue;
      headerBytes = 0;
      const entry = parseHeader(header);
      if (entry === null) isEnded = true;
      // Bodies of links and folders are empty whatever their size field says.
      else if (entry.kind === 'file' || entry.kind === 'other')
        skipBytes = entry.sizeBytes + paddingBytes(entry.sizeBytes);
    }
    yield chunk;
  }
  if (!isEnded) throw await onCut();
}
