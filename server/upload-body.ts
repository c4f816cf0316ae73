/** Reads the body of an upload piece by piece: it may be large and slow, but it may not pause. */
import { createRequestError } from './problems.ts';

/** Whether a request is an upload, by its method and its path. Its body is not JSON. */
export function isUpload(method: string, path: string): boolean {
  return method === 'PUT' && path.startsWith('/api/v1/blobs/');
}

/**
 * Yields the bytes as they arrive.
 * @throws AppError `api/too-slow` if no byte arrives for `pauseMs`; `api/invalid-request` if the connection ends before
 */
export async function* readUpload(
  body: ReadableStream<Uint8Array> | null,
  pauseMs: number,
): AsyncGenerator<Uint8Array, void, void> {
  if (body === null) return;
  // The stream is not cancelled: that would end the connection before its answer.
  const reader = body.getReader();
  for (;;) {
    const { done, value } = await readWithin(reader, pauseMs);
    if (done) return;
    yield value;
  }
}

async function readWithin(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  pauseMs: number,
): ReturnType<typeof reader.read> {
  let timer: NodeJS.Timeout | undefined;
  const pause = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(createRequestError('api/too-slow', `no byte of the upload arrived for ${pauseMs / 1000} s`)),
      pauseMs,
    );
  });
  try {
    return await Promise.race([reader.read().catch(throwCut), pause]);
  } finally {
    clearTimeout(timer);
  }
}

/** No client reads the answer, but the log must not call it a bug. */
function throwCut(): never {
  throw createRequestError('api/invalid-request', 'the connection ended before the upload');
}
