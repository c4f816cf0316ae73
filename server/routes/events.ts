import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import { readEndState, readEvents } from '../../app/runs/read-events.ts';
import { openRunFeeds, type RunFeeds } from '../../app/runs/run-feeds.ts';
import type { RunEvent } from '../../domain/run/event.ts';
import type { ApiOptions } from '../api-options.ts';
import { streamTexts } from '../event-stream.ts';
import { readFirstPiece } from '../first-piece.ts';
import { createProblem, toProblem } from '../problems.ts';
import { EventsHeaders, EventSchema, EventsQuery, RunPath } from '../schemas.ts';
import { PROBLEM } from './answers.ts';
import { readKnownRunId } from './run-id.ts';

const LINES_TYPE = 'application/jsonl';
const SSE_TYPE = 'text/event-stream';
/** A line that clients of event streams skip. */
const COMMENT = ':\n\n';

const EVENTS = createRoute({
  method: 'get',
  path: '/runs/{runId}/events',
  summary: 'Reads the events of a run, or follows them',
  description:
    'With `Accept: text/event-stream`, the events are followed until the end of the run: `id` is `seq`, `data` is the event. The event `end` closes the stream. Otherwise the events until now are lines of JSON.',
  request: { params: RunPath, query: EventsQuery, headers: EventsHeaders },
  responses: {
    200: {
      description: 'The events.',
      content: {
        [LINES_TYPE]: { schema: EventSchema },
        [SSE_TYPE]: { schema: z.string() },
      },
    },
    ...PROBLEM,
  },
});

interface WantedEvents {
  readonly runId: string;
  /** The `seq` of the last event that the reader has. */
  readonly after: number;
  /** Whether it also wants the output of stages. */
  readonly output: boolean;
  readonly signal: AbortSignal;
}

/** Writes an event once for all readers of its feed. */
type WriteEvent = (event: RunEvent) => string;

export function addEventRoutes(routes: OpenAPIHono, { machine, limits, log }: ApiOptions): void {
  const feeds = openRunFeeds(machine);
  const written = new WeakMap<RunEvent, string>();
  const write: WriteEvent = (event) => {
    const text = written.get(event) ?? `id: ${event.seq}\ndata: ${JSON.stringify(event)}\n\n`;
    written.set(event, text);
    return text;
  };
  routes.openapi(EVENTS, async (context) => {
    const runId = await readKnownRunId(context, machine);
    const query = context.req.valid('query');
    const after = context.req.valid('header')['last-event-id'] ?? query.after ?? 0;
    const output = query.output ?? true;
    const isFollowed = isEventStream(context.req.header('accept'));
    const gone = new AbortController();
    const wanted: WantedEvents = { runId, after, output, signal: gone.signal };
    const texts = isFollowed
      ? writeSse(wanted, { feeds, write, machine, log })
      : // A reader that resumes at damage gets a problem.
        await readFirstPiece(writeLines(readEvents(runId, { after, output }, machine)));
    const body = streamTexts(texts, {
      stalledMs: limits.stalledMs,
      pieceBytes: limits.pieceBytes,
      heartbeat: isFollowed ? { text: COMMENT, everyMs: limits.heartbeatMs } : null,
      onGone: () => gone.abort(),
    });
    return new Response(body, { headers: { 'content-type': isFollowed ? SSE_TYPE : LINES_TYPE } });
  });
}

function isEventStream(accept = ''): boolean {
  return accept.split(',').some((type) => type.split(';')[0]!.trim().toLowerCase() === SSE_TYPE);
}

async function* writeLines(events: AsyncIterable<RunEvent>): AsyncGenerator<string> {
  for await (const event of events) yield `${JSON.stringify(event)}\n`;
}

interface SseOptions extends Pick<ApiOptions, 'machine' | 'log'> {
  readonly feeds: RunFeeds;
  readonly write: WriteEvent;
}

async function* writeSse(
  { runId, after, output, signal }: WantedEvents,
  { feeds, write, machine, log }: SseOptions,
): AsyncGenerator<string> {
  try {
    for await (const event of feeds.follow(runId, after, signal))
      if (output || event.body.type !== 'output') yield write(event);
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
