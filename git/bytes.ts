/** Streams of bytes with a limit. */
import { GitError } from './run-git.ts';

export async function* limitBytes(
  source: AsyncIterable<Uint8Array>,
  mostBytes: number,
  what: string,
): AsyncIterable<Uint8Array> {
  let bytes = 0;
  for await (const chunk of source) {
    bytes += chunk.byteLength;
    if (bytes > mostBytes) throw new GitError('too-large', `${what} has more than ${mostBytes} bytes`);
    yield chunk;
  }
}

/** Returns the first bytes of a stream, and the whole stream. */
export async function withStart(
  source: AsyncIterable<Uint8Array>,
  bytes: number,
): Promise<{ readonly start: Buffer; readonly rest: (from: number) => AsyncIterable<Uint8Array> }> {
  const iterator = source[Symbol.asyncIterator]();
  let start: Buffer = Buffer.alloc(0);
  while (start.byteLength < bytes) {
    const next = await iterator.next();
    if (next.done === true) break;
    start = Buffer.concat([start, next.value]);
  }
  return {
    start,
    async *rest(from) {
      yield start.subarray(from);
      for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) yield next.value;
    },
  };
}
