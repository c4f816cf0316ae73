/** Answers with a list of JSON: a short one with its length, a long one as its reader reads it. */
import { streamTexts } from '../event-stream.ts';
import type { ApiLimits } from '../limits.ts';

/** Some clients of Void-Box do not read an answer without its length. */
const SHORT_BYTES = 4 * 1024 * 1024;

/** Reads the first texts before it answers, so that a problem has a status. */
export async function answerWithTexts(
  texts: AsyncIterator<string>,
  { stalledMs, pieceBytes }: Pick<ApiLimits, 'stalledMs' | 'pieceBytes'>,
): Promise<Response> {
  const first: string[] = [];
  const headers = { 'content-type': 'application/json' };
  for (let bytes = 0; bytes < SHORT_BYTES;) {
    const next = await texts.next();
    if (next.done === true) return new Response(first.join(''), { headers });
    first.push(next.value);
    bytes += Buffer.byteLength(next.value);
  }
  const rest = { stalledMs, pieceBytes, heartbeat: null, onGone: () => undefined };
  return new Response(streamTexts(joinTexts(first.join(''), texts), rest), { headers });
}

async function* joinTexts(first: string, texts: AsyncIterator<string>): AsyncGenerator<string> {
  try {
    yield first;
    for (let next = await texts.next(); next.done !== true; next = await texts.next()) yield next.value;
  } finally {
    await texts.return?.();
  }
}
