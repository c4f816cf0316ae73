/** Reads the lines of a run's log, as `voidbox logs` prints them, or follows them. */
import type { Connection } from './connection.ts';
import { ForeignAnswerError } from './errors.ts';
import { readLines } from './event-stream.ts';
import { type FollowedStream, followStream, type RunEnd, type TroubleOptions } from './follow.ts';
import type { ReadLogsQuery } from './openapi.ts';
import type { CallOptions } from './options.ts';

/** Which lines of a log are read. By default all. */
export interface LogSelection extends Omit<ReadLogsQuery, 'output' | 'tail' | 'timestamps'> {
  /** Begins with this many last lines; at most 10,000. */
  readonly tail?: number;
  /** Begins each line with its time (UTC). */
  readonly timestamps?: boolean;
  /** Leaves out lines about the states of stages and VMs. */
  readonly outputOnly?: boolean;
}

export interface LogOptions extends CallOptions, LogSelection {}
export interface FollowLogOptions extends TroubleOptions, LogSelection {}

type Query = Readonly<Record<string, string | number | undefined>>;

/** Yields the lines until now. A connection that breaks ends it with an error. */
export async function* readLog(
  connection: Connection,
  runId: string,
  { signal, ...selection }: LogOptions,
): AsyncGenerator<string, void, undefined> {
  const request = { path: ['runs', runId, 'logs'], query: makeQuery(selection), signal };
  const { bytes } = await connection.retry(request, () => connection.send(request));
  yield* readLines(bytes, connection.limits.eventBytes);
}

/** Yields the lines until the run ends. */
export async function* followLog(
  connection: Connection,
  runId: string,
  { signal, onTrouble, ...selection }: FollowLogOptions,
): AsyncGenerator<string, RunEnd, undefined> {
  const query = makeQuery(selection);
  const stream: FollowedStream<readonly string[]> = {
    runId,
    part: 'logs',
    makeQuery: () => query,
    read: ({ id, data }) => ({ seq: parseSequence(id, connection), value: data.split('\n') }),
    // The last line of a log without an end comes with the last event.
    sharesSeq: true,
  };
  const options = { signal, ...(onTrouble === undefined ? {} : { onTrouble }) };
  const messages = followStream(connection, stream, options);
  try {
    for (;;) {
      const next = await messages.next();
      if (next.done === true) return next.value;
      yield* next.value;
    }
  } finally {
    await messages.return({ state: '' });
  }
}

function makeQuery({ tail, timestamps, outputOnly, ...selection }: LogSelection): Query {
  return {
    ...selection,
    tail,
    timestamps: timestamps === true ? 'true' : undefined,
    output: outputOnly === true ? 'only' : undefined,
  };
}

/** @throws ForeignAnswerError for a message that cannot be resumed */
function parseSequence(id: string, { name }: Connection): number {
  const seq = Number(id);
  if (/^\d+$/.test(id) && Number.isSafeInteger(seq)) return seq;
  throw new ForeignAnswerError(`${name} sends lines of a log without their place`, 200);
}
