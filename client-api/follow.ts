/** Follows the events or the log of a run. A stream that breaks is opened again after the last event. */
import type { RunEvent } from '../domain/run/event.ts';
import { pause } from './bounded-wait.ts';
import { type Connection, readPause, shortenByChance } from './connection.ts';
import { ApiError, ForeignAnswerError, type VoidboxError } from './errors.ts';
import { readStreamedEvents, type StreamedEvent } from './event-stream.ts';
import type { CallOptions } from './options.ts';
import { parseObject, parseProblem } from './problem.ts';

export interface TroubleOptions extends CallOptions {
  /** Is called before each pause after a connection that failed. The follower then tries again. */
  readonly onTrouble?: (error: VoidboxError) => void;
}

export interface FollowOptions extends TroubleOptions {
  /** Only events after this `seq`; by default all. */
  readonly after?: number;
  /** False: without the output of stages. */
  readonly output?: boolean;
}

/** The end of a run that was followed. */
export interface RunEnd {
  /** `succeeded`, `failed`, `cancelled` or `terminated`. */
  readonly state: string;
}

interface Progress {
  /** The `seq` of the last event. */
  last: number;
  /** Tries since the last event. */
  failed: number;
  /** When the service was last heard. */
  heardAtMs: number;
}

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;

/** A stream that a follower reads. */
export interface FollowedStream<T> {
  readonly runId: string;
  /** The last part of its path below the run. */
  readonly part: 'events' | 'logs';
  /** @param last  the `seq` of the last event that was read */
  readonly makeQuery: (last: number) => Readonly<Record<string, string | number | undefined>>;
  /** @throws ForeignAnswerError */
  readonly read: (event: StreamedEvent, connection: Connection) => { readonly seq: number; readonly value: T };
  /** Several messages may have the `seq` of one event. */
  readonly sharesSeq: boolean;
}

/** @returns the end of the run, after its last event */
export async function* followRun(
  connection: Connection,
  runId: string,
  { after = 0, output = true, ...options }: FollowOptions,
): AsyncGenerator<RunEvent, RunEnd, undefined> {
  if (!Number.isSafeInteger(after) || after < 0) throw new TypeError('`after` is not the `seq` of an event.');
  const stream: FollowedStream<RunEvent> = {
    runId,
    part: 'events',
    // The query is for a proxy that drops the header.
    makeQuery: (last) => ({ ...(last === 0 ? {} : { after: last }), ...(output ? {} : { output: 'false' }) }),
    read: ({ data }) => {
      const value = parseEvent(data, connection);
      return { seq: value.seq, value };
    },
    sharesSeq: false,
  };
  return yield* followStream(connection, stream, { ...options, after });
}

/** @returns the end of the run, after its last message */
export async function* followStream<T>(
  connection: Connection,
  stream: FollowedStream<T>,
  { after = 0, signal, onTrouble }: TroubleOptions & { readonly after?: number },
): AsyncGenerator<T, RunEnd, undefined> {
  const startedAtMs = performance.now();
  const progress: Progress = { last: after, failed: 0, heardAtMs: startedAtMs };
  for (;;) {
    try {
      const end = yield* readStream(connection, stream, progress, signal);
      if (end !== null) return end;
      throw new ForeignAnswerError(`${connection.name} ended the stream of events before the end of the run`, 502);
    } catch (error) {
      const atLeastMs = readFollowPause(error, connection, { progress, startedAtMs, after });
      if (atLeastMs === null) throw error;
      onTrouble?.(error as VoidboxError);
      const pauseMs = shortenByChance(Math.min(FIRST_PAUSE_MS * 2 ** Math.min(progress.failed, 10), LONGEST_PAUSE_MS));
      progress.failed += 1;
      await pause(Math.min(Math.max(pauseMs, atLeastMs), connection.limits.followPauseMs), signal);
    }
  }
}

/** @returns null if the stream ended and the run did not */
async function* readStream<T>(
  connection: Connection,
  { runId, part, makeQuery, read, sharesSeq }: FollowedStream<T>,
  progress: Progress,
  signal: AbortSignal | undefined,
): AsyncGenerator<T, RunEnd | null, undefined> {
  const { last } = progress;
  const { bytes } = await connection.send({
    path: ['runs', runId, part],
    query: makeQuery(last),
    headers: { accept: 'text/event-stream', ...(last === 0 ? {} : { 'last-event-id': String(last) }) },
    signal,
  });
  for await (const message of readStreamedEvents(passBytes(bytes, progress), connection.limits.eventBytes)) {
    const { event, data } = message;
    if (event === 'end') return readEnd(data, connection);
    if (event === 'problem') throw readStreamProblem(data, connection);
    if (event !== 'message') continue;
    const { seq, value } = read(message, connection);
    // A stream that begins too early repeats events.
    if (sharesSeq ? seq < last : seq <= progress.last) continue;
    progress.last = Math.max(seq, progress.last);
    progress.failed = 0;
    yield value;
  }
  return null;
}

async function* passBytes(bytes: AsyncIterable<Uint8Array>, progress: Progress): AsyncGenerator<Uint8Array> {
  for await (const chunk of bytes) {
    progress.heardAtMs = performance.now();
    yield chunk;
    // The time in which the reader worked is no silence of the service.
    progress.heardAtMs = performance.now();
  }
}

/** @returns the least pause before the next try; null: no further try */
function readFollowPause(
  error: unknown,
  { limits }: Connection,
  { progress, startedAtMs, after }: { progress: Progress; startedAtMs: number; after: number },
): number | null {
  const nowMs = performance.now();
  if (error instanceof ApiError && error.code === 'api/no-run')
    return progress.last === after && nowMs - startedAtMs < limits.unknownMs ? 0 : null;
  const isAway = error instanceof ApiError && error.status === 503 ? (error.retryAfterMs ?? 0) : null;
  const atLeastMs = readPause(error, true) ?? isAway;
  return nowMs - progress.heardAtMs < limits.awayMs ? atLeastMs : null;
}

/** @throws ForeignAnswerError for a text that is not an event */
function parseEvent(data: string, { name }: Connection): RunEvent {
  const event = parseObject(data) as Partial<RunEvent> | null;
  const isEvent =
    event !== null &&
    Number.isSafeInteger(event.seq) &&
    event.seq! > 0 &&
    typeof event.id === 'string' &&
    typeof event.atMs === 'number' &&
    typeof event.body?.type === 'string';
  if (isEvent) return event as RunEvent;
  throw new ForeignAnswerError(`${name} sends something else than an event of the run`, 200);
}

function readEnd(data: string, { name }: Connection): RunEnd {
  const state = parseObject(data)?.['state'];
  if (typeof state === 'string') return { state };
  throw new ForeignAnswerError(`${name} sends an end of the run without its state`, 200);
}

function readStreamProblem(data: string, { name }: Connection): VoidboxError {
  const status = parseObject(data)?.['status'];
  const problem = parseProblem(data, typeof status === 'number' ? status : 500);
  return problem === null
    ? new ForeignAnswerError(`${name} ended the stream of events without a reason`, 502)
    : new ApiError(problem, null);
}
