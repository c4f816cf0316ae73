/** Answers with the bytes of an artifact: whole or in part, as an attachment that no browser shows. */
import type { OutputBytes } from '../app/runs/artifacts.ts';
import { type ByteRange, readByteRange } from './byte-range.ts';
import { streamTexts } from './event-stream.ts';
import { readFirstPiece } from './first-piece.ts';
import type { ApiLimits } from './limits.ts';
import { createProblem, toProblemResponse } from './problems.ts';

export interface DownloadOptions {
  readonly limits: Pick<ApiLimits, 'stalledMs' | 'pieceBytes'>;
  readonly headers: Headers;
}

/** Reads the first bytes before it answers, so that an absent artifact is a problem with a status. */
export async function answerWithBytes(
  { sha256, sizeBytes, fileName, isMember, open }: OutputBytes,
  { limits, headers }: DownloadOptions,
): Promise<Response> {
  // A file of a tar has other bytes than the tar.
  const etag = `"${sha256}${isMember ? '-file' : ''}"`;
  const common = { etag, 'accept-ranges': 'bytes' };
  if (matchEtag(headers.get('if-none-match'), etag)) return new Response(null, { status: 304, headers: common });
  const condition = headers.get('if-range');
  const range = readByteRange(condition === null || condition === etag ? headers.get('range') : null, sizeBytes);
  if (range === 'outside') {
    const detail = `the range ${headers.get('range')} names none of the ${sizeBytes} bytes`;
    const problem = createProblem('api/invalid-request', detail, 416);
    return toProblemResponse(problem, { ...common, 'content-range': `bytes */${sizeBytes}` });
  }
  const { from, to } = range ?? { from: 0, to: sizeBytes };
  const pieces = cutPieces(open(from)[Symbol.asyncIterator](), { from, to, isToEnd: to === sizeBytes });
  const body = streamTexts(await readFirstPiece(pieces), {
    ...limits,
    heartbeat: null,
    onGone: () => undefined,
  });
  return new Response(body, {
    status: range === null ? 200 : 206,
    headers: {
      ...common,
      'content-type': 'application/octet-stream',
      'content-disposition': describeAttachment(fileName),
      'content-length': String(to - from),
      ...(range === null ? {} : { 'content-range': `bytes ${from}-${to - 1}/${sizeBytes}` }),
    },
  });
}

async function* cutPieces(
  source: AsyncIterator<Uint8Array>,
  { from, to, isToEnd }: ByteRange & { readonly isToEnd: boolean },
): AsyncGenerator<Uint8Array> {
  let left = to - from;
  try {
    let next = await source.next();
    while (left > 0) {
      if (next.done === true) throw new Error(`the artifact ends ${left} bytes too early`);
      const piece = next.value.subarray(0, left);
      left -= piece.byteLength;
      // A store compares the hash after the last byte, so the last piece leaves after the comparison.
      if (left > 0 || isToEnd) next = await source.next();
      yield piece;
    }
  } finally {
    await source.return?.();
  }
}

function matchEtag(header: string | null, etag: string): boolean {
  if (header === null) return false;
  return header.split(',').some((one) => ['*', etag].includes(one.trim().replace(/^W\//, '')));
}

/** A name of a guest is text only (RFC 6266): no path, no quote, no control character. */
function describeAttachment(fileName: string): string {
  const encoded = encodeURIComponent(fileName.replace(/\p{Surrogate}/gu, '_')).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${fileName.replace(/[^\w.-]/g, '_')}"; filename*=UTF-8''${encoded}`;
}
