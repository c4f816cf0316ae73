/** The calls of a client about sessions of step machines. */
import type { Connection, ServiceRequest } from './connection.ts';
import { ForeignAnswerError } from './errors.ts';
import { readLines } from './event-stream.ts';
import type {
  AnswerOfStep,
  CancelledSession,
  ListSessionsQuery,
  Session,
  SessionResult,
  Sessions,
  StartSession,
  StepRecord,
} from './openapi.ts';
import type { CallOptions } from './options.ts';
import { parseObject } from './problem.ts';

export interface SessionListOptions extends CallOptions, Omit<ListSessionsQuery, 'limit' | 'waiting'> {
  /** The most listed sessions; by default 50. */
  readonly limit?: number;
  /** True: only open sessions that wait for a person, with their steps. */
  readonly waiting?: boolean;
}

export interface SessionWaitOptions extends CallOptions {
  /** The longest wait for the work of the session; 0: none. By default the call waits until the session has a result. */
  readonly timeoutMs?: number;
}

/** The calls about sessions. Each rejects with a `VoidboxError`, or with the reason of its signal. */
export interface SessionCalls {
  list(options?: SessionListOptions): Promise<Sessions>;
  /** Starts a session of a step machine that the stack has loaded. Its `result` is null after `timeoutMs`. */
  start(session: StartSession, options?: SessionWaitOptions): Promise<SessionResult>;
  get(session: string, options?: CallOptions): Promise<Session>;
  /** Waits until the session has no work in progress. Its `result` is null after `timeoutMs`. */
  result(session: string, options?: SessionWaitOptions): Promise<SessionResult>;
  /** Answers a step. The same answer gets the same result. A refused answer is a result, too. */
  advance(session: string, answer: AnswerOfStep, options?: SessionWaitOptions): Promise<SessionResult>;
  /** Ends a session and stops its actions. `hasEnded` is false after `timeoutMs`, by default after 30 s. */
  cancel(session: string, options?: SessionWaitOptions): Promise<CancelledSession>;
  /** Yields the completed steps, oldest first. A connection that breaks ends it with an error. */
  history(session: string, options?: CallOptions): AsyncGenerator<StepRecord, void, undefined>;
}

/** The service waits at most a minute. */
const MOST_WAIT_MS = 60_000;
const CANCEL_MS = 30_000;

export function createSessionCalls(connection: Connection): SessionCalls {
  const call = async <T>(request: ServiceRequest): Promise<T> => (await connection.call(request)).value as T;
  const awaitResult = (session: string, options: SessionWaitOptions = {}): Promise<SessionResult> =>
    repeatUntilResult(connection, { path: ['sessions', session, 'result'] }, options);
  return {
    list: ({ signal, state, waiting, limit } = {}) =>
      call({ path: ['sessions'], query: { state, waiting: waiting === true ? 'true' : undefined, limit }, signal }),
    async start(session, { timeoutMs = Number.POSITIVE_INFINITY, signal } = {}) {
      const endsAtMs = performance.now() + timeoutMs;
      // A start that is sent again would find the session of the first one.
      const started = await callWithin<SessionResult>(
        connection,
        { method: 'POST', path: ['sessions'], json: session, signal },
        timeoutMs,
      );
      if (started.result !== null || timeoutMs === 0) return started;
      return await awaitResult(session.session, { timeoutMs: Math.max(endsAtMs - performance.now(), 0), signal });
    },
    get: (session, { signal } = {}) => call({ path: ['sessions', session], signal }),
    result: awaitResult,
    advance: (session, answer, options = {}) =>
      repeatUntilResult(
        connection,
        { method: 'POST', path: ['sessions', session, 'advance'], json: answer, isRepeatable: true },
        options,
      ),
    cancel: (session, { timeoutMs = CANCEL_MS, signal } = {}) =>
      callWithin(
        connection,
        { method: 'POST', path: ['sessions', session, 'cancel'], signal, isRepeatable: true },
        timeoutMs,
      ),
    history: (session, options) => readHistory(connection, session, options),
  };
}

/** Sends the request again, which joins its work, until the session has a result. */
async function repeatUntilResult(
  connection: Connection,
  request: ServiceRequest,
  { timeoutMs = Number.POSITIVE_INFINITY, signal }: SessionWaitOptions,
): Promise<SessionResult> {
  const endsAtMs = performance.now() + readTimeout(timeoutMs);
  for (;;) {
    const leftMs = Math.max(endsAtMs - performance.now(), 0);
    const found = await callWithin<SessionResult>(connection, { ...request, signal }, leftMs);
    if (found.result !== null || performance.now() >= endsAtMs) return found;
  }
}

async function callWithin<T>(connection: Connection, request: ServiceRequest, timeoutMs: number): Promise<T> {
  const wait = Math.ceil(Math.min(readTimeout(timeoutMs), MOST_WAIT_MS) / 1_000);
  const { value } = await connection.call({ ...request, query: { wait }, waitMs: wait * 1_000 });
  return value as T;
}

function readTimeout(timeoutMs: number): number {
  if (timeoutMs >= 0) return timeoutMs;
  throw new TypeError(`\`timeoutMs\` is ${timeoutMs}. Pass 0 or more.`);
}

async function* readHistory(
  connection: Connection,
  session: string,
  { signal }: CallOptions = {},
): AsyncGenerator<StepRecord, void, undefined> {
  const request = { path: ['sessions', session, 'history'], signal };
  const { bytes } = await connection.retry(request, () => connection.send(request));
  for await (const line of readLines(bytes, connection.limits.eventBytes)) {
    const record = parseObject(line);
    if (typeof record?.['step'] !== 'string' || typeof record['turn'] !== 'number')
      throw new ForeignAnswerError(`${connection.name} sends something else than a step of the session`, 200);
    yield record as unknown as StepRecord;
  }
}
