/** Answers that read a run: as text until now, or as an event stream that follows the run. */
import type { Context } from 'hono';
import { readEndState } from '../app/lines/read-log.ts';
import type { ApiOptions } from './api-options.ts';
import { streamTexts } from './event-stream.ts';
import { readFirstPiece } from './first-piece.ts';
import { createProblem, toProblem } from './problems.ts';

export const SSE_TYPE = 'text/event-stream';
/** A line that clients of event streams skip. */
const COMMENT = ':\n\n';

/** Whether the client asks for an event stream, which follows the run. */
export function isEventStreamWanted({ req }: Context): boolean {
  const accept = req.header('accept') ?? '';
  return accept.split(',').some((type) => type.split(';')[0]!.trim().toLowerCase() === SSE_TYPE);
}

export interface RunStream {
  readonly runId: string;
  /** Aborted when the reader has gone. */
  readonly gone: AbortController;
  /** The type of the text until now; null: an event stream. */
  readonly type: string | null;
  readonly texts: AsyncIterable<string>;
}

export async function answerRunStream({ runId, gone, type, texts }: RunStream, options: ApiOptions): Promise<Response> {
  const { limits } = options;
  const isFollowed = type === null;
  const source = isFollowed
    ? writeSse({ runId, texts, signal: gone.signal }, options)
    : // A reader that resumes at damage gets a problem.
      await readFirstPiece(texts[Symbol.asyncIterator]());
  const body = streamTexts(source, {
    stalledMs: limits.stalledMs,
    pieceBytes: limits.pieceBytes,
    heartbeat: isFollowed ? { text: COMMENT, everyMs: limits.heartbeatMs } : null,
    onGone: () => gone.abort(),
  });
  return new Response(body, { headers: { 'content-type': type ?? SSE_TYPE } });
}

interface Followed extends Pick<RunStream, 'runId' | 'texts'> {
  readonly signal: AbortSignal;
}

async function* writeSse(
  { runId, texts, signal }: Followed,
  { machine, log }: Pick<ApiOptions, 'machine' | 'log'>,
): AsyncGenerator<string> {
  try {
    for await (const text of texts) yield text;
    if (signal.aborted) return;
    yield `event: end\ndata: ${JSON.stringify({ state: await readEndState(runId, machine) })}\n\n`;
  } catch (error) {
    // The status has been sent, so the problem is an event.
    const problem = await toProblem(error);
    if (problem === null) log(`events: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    const shown = problem ?? createProblem('api/bug', 'this is a bug in voidbox');
    yield `event: problem\ndata: ${JSON.stringify(shown)}\n\n`;
  }
}
