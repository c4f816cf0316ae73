/** The events of a run and the lines of its log, until now or followed. */
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import type { LogFilter } from '../../app/lines/log-lines.ts';
import { selectEvents, selectLines } from '../../app/lines/read-log.ts';
import { openRunFeeds } from '../../app/runs/run-feeds.ts';
import type { SelectedPieces } from '../../app/lines/select-events.ts';
import type { RunEvent } from '../../domain/run/event.ts';
import type { ApiOptions } from '../api-options.ts';
import { answerRunStream, SSE_TYPE, isEventStreamWanted } from '../run-stream.ts';
import { EventsHeaders, EventSchema, EventsQuery, LogsQuery, RunPath } from '../schemas.ts';
import { PROBLEM } from './answers.ts';
import { readKnownRunId } from './run-id.ts';

const LINES_TYPE = 'application/jsonl';
const TEXT_TYPE = 'text/plain; charset=utf-8';
const OUTPUT = { true: 'with', false: 'without', only: 'only' } as const;

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

const LOGS = createRoute({
  method: 'get',
  path: '/runs/{runId}/logs',
  summary: 'Reads the lines that the stages of a run have printed, or follows them',
  description:
    'The lines of `voidbox logs`. With `Accept: text/event-stream`, they are followed until the end of the run: `data` has the lines that an event completes, and `id` is the `seq` of the event.',
  request: { params: RunPath, query: LogsQuery, headers: EventsHeaders },
  responses: {
    200: {
      description: 'The lines.',
      content: { [TEXT_TYPE]: { schema: z.string() }, [SSE_TYPE]: { schema: z.string() } },
    },
    ...PROBLEM,
  },
});

export function addEventRoutes(routes: OpenAPIHono, options: ApiOptions): void {
  const { machine } = options;
  const feeds = openRunFeeds(machine);
  const writeEvents = createEventWriter();
  routes.openapi(EVENTS, async (context) => {
    const runId = await readKnownRunId(context, machine);
    const { after = 0, output = 'true', tail, ...filter } = context.req.valid('query');
    const gone = watchReader(context);
    const type = isEventStreamWanted(context) ? null : LINES_TYPE;
    const request = {
      ...readPosition(context.req.valid('header')['last-event-id'], after, tail),
      runId,
      filter: toFilter(filter),
      output: OUTPUT[output],
      signal: gone.signal,
    };
    const selected = await selectEvents(request, { feeds: type === null ? feeds : null }, machine);
    const texts = type === null ? writeEvents(selected) : writeJsonLines(selected);
    return await answerRunStream({ runId, gone, type, texts }, options);
  });
  routes.openapi(LOGS, async (context) => {
    const runId = await readKnownRunId(context, machine);
    const { output, tail, timestamps, tools, ...filter } = context.req.valid('query');
    const gone = watchReader(context);
    const type = isEventStreamWanted(context) ? null : TEXT_TYPE;
    const request = {
      ...readPosition(context.req.valid('header')['last-event-id'], 0, tail),
      runId,
      filter: { ...toFilter(filter), outputOnly: output === 'only' },
      look: { timestamps, tools },
      signal: gone.signal,
    };
    const selected = await selectLines(request, { feeds: type === null ? feeds : null }, machine);
    const texts = type === null ? writeStreamedLines(selected) : writeLines(selected);
    return await answerRunStream({ runId, gone, type, texts }, options);
  });
}

/** The reader may leave before the answer has its first byte. */
function watchReader({ req }: Context): AbortController {
  const gone = new AbortController();
  req.raw.signal.addEventListener('abort', () => gone.abort(), { once: true });
  return gone;
}

/** A reader that resumes has got its tail already. */
function readPosition(
  lastEventId: number | undefined,
  after: number,
  tail: number | undefined,
): { readonly after: number; readonly tail: number | null } {
  return lastEventId === undefined ? { after, tail: tail ?? null } : { after: lastEventId, tail: null };
}

type FilterQuery = Omit<LogFilter, 'stream'> & { readonly stream?: LogFilter['stream'] | undefined };

function toFilter({ stream = 'both', ...filter }: FilterQuery): LogFilter {
  return { ...filter, stream };
}

type WriteSelected<T> = (selected: AsyncIterable<SelectedPieces<T>>) => AsyncGenerator<string>;

/** Returns a function that writes an event once for all readers of its feed. */
function createEventWriter(): WriteSelected<RunEvent> {
  const written = new WeakMap<RunEvent, string>();
  return async function* write(selected) {
    for await (const { pieces } of selected)
      for (const event of pieces) {
        const text = written.get(event) ?? `id: ${event.seq}\ndata: ${JSON.stringify(event)}\n\n`;
        written.set(event, text);
        yield text;
      }
  };
}

const writeJsonLines: WriteSelected<RunEvent> = async function* writeJsonLines(selected) {
  for await (const { pieces } of selected) for (const event of pieces) yield `${JSON.stringify(event)}\n`;
};

const writeLines: WriteSelected<string> = async function* writeLines(selected) {
  for await (const { pieces } of selected) yield pieces.map((line) => `${line}\n`).join('');
};

/** No line contains a carriage return, because lines are sanitized. */
const writeStreamedLines: WriteSelected<string> = async function* writeStreamedLines(selected) {
  for await (const { seq, pieces } of selected) {
    const lines = pieces.flatMap((line) => line.split('\n'));
    yield `id: ${seq}\n${lines.map((line) => `data: ${line}\n`).join('')}\n`;
  }
};
