/** The calls of a client about runs. */
import type { RunEvent } from '../domain/run/event.ts';
import type { Answer, Connection, ServiceRequest } from './connection.ts';
import { type FollowOptions, followRun, type RunEnd } from './follow.ts';
import { followLog, type FollowLogOptions, type LogOptions, readLog } from './logs.ts';
import type {
  ActionResults,
  Answer as RunAnswer,
  AnswerReceipt,
  Artifacts,
  CancelledRun,
  ForkRun,
  ListRunsQuery,
  Result,
  RerunPreview,
  RetryRun,
  Run,
  RunActions,
  RunList,
  StartedRerun,
  StartedRun,
  StartRun,
} from './openapi.ts';
import type { CallOptions } from './options.ts';

export interface StartOptions extends CallOptions {
  /**
   * The `Idempotency-Key`: the same start with the same key starts one run, also from another process. By default a
   * random key, so that a start whose answer was lost is sent again.
   */
  readonly key?: string;
}

export interface ResultOptions extends CallOptions {
  /** The longest wait for the end of the run; 0: none. By default the call waits until the run ends. */
  readonly timeoutMs?: number;
}

export interface CancelOptions extends CallOptions {
  /** False: a second cancel also ends stages with `finally`. By default no cancel does. */
  readonly keepsFinally?: boolean;
  /** Waits for the end of the run, at most 60 s. */
  readonly waitMs?: number;
}

export interface ListOptions extends CallOptions, Omit<ListRunsQuery, 'limit'> {
  /** The runs of a page; at most 200, by default 50. */
  readonly limit?: number;
}

/** An output of a run: of a stage itself, or one of its named outputs. */
export interface ArtifactName {
  readonly stage: string;
  /** Absent or null: the stage's own output. */
  readonly name?: string | null;
}

/** The calls about runs. Each rejects with a `VoidboxError`, or with the reason of its signal. */
export interface RunCalls {
  /** Starts a run. It returns after the admission of the run, 10 seconds after the start at the latest. */
  start(run: StartRun, options?: StartOptions): Promise<StartedRun>;
  /**
   * Yields each event of a run once, in order, until the run ends; the iteration returns its end. A connection that
   * breaks is opened again after the last event.
   */
  follow(runId: string, options?: FollowOptions): AsyncGenerator<RunEvent, RunEnd, undefined>;
  /** Yields the lines of the log until now, as `voidbox logs` prints them. */
  logs(runId: string, options?: LogOptions): AsyncGenerator<string, void, undefined>;
  /** As `logs`, and follows them as `follow` does. */
  followLogs(runId: string, options?: FollowLogOptions): AsyncGenerator<string, RunEnd, undefined>;
  /** Cancels or retries many runs, with one result for each. By default a random key makes it happen once. */
  act(actions: RunActions, options?: StartOptions): Promise<ActionResults>;
  /** Returns a run with the text of its output, after its end or after `timeoutMs`. */
  result(runId: string, options?: ResultOptions): Promise<Result>;
  get(runId: string, options?: CallOptions): Promise<Run>;
  /** Returns a page of runs, the run with the latest start first. */
  list(options?: ListOptions): Promise<RunList>;
  cancel(runId: string, options?: CancelOptions): Promise<CancelledRun>;
  /** Starts a run that takes over the results of an earlier one. */
  retry(runId: string, changes?: RetryRun, options?: StartOptions): Promise<StartedRerun>;
  /** Starts a run of another spec that takes over the results of equal stages. */
  fork(runId: string, run: ForkRun, options?: StartOptions): Promise<StartedRerun>;
  /** Returns the results that `retry` would take over, and the stages that it would run again. */
  previewRetry(runId: string, changes?: RetryRun, options?: CallOptions): Promise<RerunPreview>;
  /** As `previewRetry`, for `fork`. */
  previewFork(runId: string, run: ForkRun, options?: CallOptions): Promise<RerunPreview>;
  /** Answers a question of a run. The same answer gets the same receipt. */
  answer(runId: string, answer: RunAnswer, options?: CallOptions): Promise<AnswerReceipt>;
  /** Lists the outputs of a run. */
  artifacts(runId: string, options?: CallOptions): Promise<Artifacts>;
  /** Reads an output of at most 64 MiB. A folder is a tar. */
  readArtifact(runId: string, output: ArtifactName, options?: CallOptions): Promise<Uint8Array<ArrayBuffer>>;
  /** Yields the bytes of an output of any size. A connection that breaks ends it with an error. */
  streamArtifact(runId: string, output: ArtifactName, options?: CallOptions): AsyncGenerator<Uint8Array>;
}

/** The service waits at most a minute. */
const MOST_WAIT_MS = 60_000;
/** Each of 1,000 retries is a start. */
const ACTIONS_MS = 600_000;

export function createRunCalls(connection: Connection): RunCalls {
  const call = async <T>(request: ServiceRequest): Promise<T> => (await connection.call(request)).value as T;
  const readArtifacts = (runId: string, { signal }: CallOptions = {}): Promise<Artifacts> =>
    call({ path: ['runs', runId, 'artifacts'], signal });
  const readResult = (runId: string, options: ResultOptions = {}): Promise<Result> =>
    awaitResult(connection, runId, options);
  return {
    start: (run, options) => call(createStartRequest(['runs'], run, options)),
    follow: (runId, options = {}) => followRun(connection, runId, options),
    logs: (runId, options = {}) => readLog(connection, runId, options),
    followLogs: (runId, options = {}) => followLog(connection, runId, options),
    act: (actions, options) =>
      call({ ...createStartRequest(['runs', 'actions'], actions, options), waitMs: ACTIONS_MS }),
    result: readResult,
    get: (runId, { signal } = {}) => call({ path: ['runs', runId], signal }),
    list: ({ signal, state, name, since, limit, cursor } = {}) =>
      call({ path: ['runs'], query: { state, name, since, limit, cursor }, signal }),
    cancel: (runId, { keepsFinally = true, waitMs = 0, signal } = {}) =>
      call({
        method: 'POST',
        path: ['runs', runId, 'cancel'],
        query: { finally: keepsFinally ? 'keep' : undefined, wait: readWait(waitMs) },
        signal,
        waitMs,
        // Twice, it could end stages with `finally`.
        isRepeatable: keepsFinally,
      }),
    retry: (runId, changes = {}, options) => call(createStartRequest(['runs', runId, 'retry'], changes, options)),
    fork: (runId, run, options) => call(createStartRequest(['runs', runId, 'fork'], run, options)),
    previewRetry: (runId, changes = {}, options) => call(createPreviewRequest(runId, 'retry', changes, options)),
    previewFork: (runId, run, options) => call(createPreviewRequest(runId, 'fork', run, options)),
    answer: (runId, answer, { signal } = {}) =>
      call({ method: 'POST', path: ['runs', runId, 'answer'], json: answer, signal, isRepeatable: true }),
    artifacts: readArtifacts,
    readArtifact: (runId, output, { signal } = {}) => {
      const request = createArtifactRequest(runId, output, signal);
      return connection.retry(request, async () =>
        connection.readAll(await connection.send(request), connection.limits.artifactBytes),
      );
    },
    streamArtifact: (runId, output, { signal } = {}) =>
      readBytes(connection, createArtifactRequest(runId, output, signal)),
  };
}

/** With a key, the request starts one run, however often it is sent. */
function createStartRequest(
  path: readonly string[],
  json: object,
  { key = createKey(), signal }: StartOptions = {},
): ServiceRequest {
  return { method: 'POST', path, json, headers: { 'idempotency-key': key }, signal, isRepeatable: true };
}

function createPreviewRequest(
  runId: string,
  kind: 'retry' | 'fork',
  json: object,
  { signal }: CallOptions = {},
): ServiceRequest {
  const query = { preview: 'true' };
  return { method: 'POST', path: ['runs', runId, kind], query, json, signal, isRepeatable: true };
}

async function awaitResult(
  connection: Connection,
  runId: string,
  { timeoutMs = Number.POSITIVE_INFINITY, signal }: ResultOptions,
): Promise<Result> {
  const endsAtMs = performance.now() + timeoutMs;
  for (;;) {
    const waitMs = Math.min(Math.max(endsAtMs - performance.now(), 0), MOST_WAIT_MS);
    const wait = Math.ceil(waitMs / 1_000);
    const { status, value } = await connection.call({
      path: ['runs', runId, 'result'],
      query: { wait },
      signal,
      waitMs: wait * 1_000,
    });
    if (status !== 202 || performance.now() >= endsAtMs) return value as Result;
  }
}

function createArtifactRequest(
  runId: string,
  { stage, name }: ArtifactName,
  signal: AbortSignal | undefined,
): ServiceRequest {
  return { path: ['runs', runId, 'artifacts', stage, ...(name === undefined || name === null ? [] : [name])], signal };
}

async function* readBytes(connection: Connection, request: ServiceRequest): AsyncGenerator<Uint8Array> {
  const answer: Answer = await connection.retry(request, () => connection.send(request));
  yield* answer.bytes;
}

function readWait(waitMs: number): number | undefined {
  if (!(waitMs >= 0 && waitMs <= MOST_WAIT_MS))
    throw new TypeError(`\`waitMs\` is ${waitMs}. Pass at most ${MOST_WAIT_MS}, and call \`result\` to wait longer.`);
  return waitMs === 0 ? undefined : Math.ceil(waitMs / 1_000);
}

/** `randomUUID` exists in pages of HTTPS only. */
function createKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
