/** A client of services that break, refuse, repeat themselves, or are not of Voidbox. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { openClient } from './client.ts';
import { ApiError, ConnectionError, ForeignAnswerError, type VoidboxError } from './errors.ts';
import type { FollowOptions } from './follow.ts';
import { CLIENT_LIMITS, type ClientLimits } from './limits.ts';
import { type FetchFunction, readTarget } from './options.ts';

const TOKEN = `voidbox_${'s'.repeat(43)}`;
const URL_OF_SERVICE = 'https://build.example.org:7443';
const SHORT: ClientLimits = {
  ...CLIENT_LIMITS,
  pausesMs: [1, 1],
  unknownMs: 0,
  followPauseMs: 1,
};

interface SentRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
  readonly redirect: unknown;
  readonly credentials: unknown;
}

/** Returns a client of a service that gives these answers in turn, and the last of them again and again. */
function connectTo(answers: readonly (() => Response | Promise<Response>)[], limits: Partial<ClientLimits> = {}) {
  const requests: SentRequest[] = [];
  const send: FetchFunction = async (url, { method = 'GET', headers, body, redirect, credentials }) => {
    requests.push({ url, method, headers: headers as Record<string, string>, body, redirect, credentials });
    return await answers[Math.min(requests.length, answers.length) - 1]!();
  };
  return { requests, client: openClient({ url: URL_OF_SERVICE, token: TOKEN, fetch: send }, { ...SHORT, ...limits }) };
}

async function failureOf(work: Promise<unknown>): Promise<VoidboxError> {
  return await work.then(
    () => {
      throw new Error('it succeeded');
    },
    (error: unknown) => error as VoidboxError,
  );
}

const answerJson =
  (value: unknown, status = 200) =>
  () =>
    new Response(JSON.stringify(value), { status, headers: { 'content-type': 'application/json' } });

function refuse(status: number, headers: Readonly<Record<string, string>> = {}, code = 'api/refused') {
  return () =>
    new Response(JSON.stringify({ status, title: 't', code, detail: 'no', remedy: 'Do it.', fault: 'environment' }), {
      status,
      headers: { 'content-type': 'application/problem+json', ...headers },
    });
}

const breakOff = () => Promise.reject(new TypeError('fetch failed'));

/** An answer with these pieces, after which it ends, breaks or stays open. */
function stream(pieces: readonly string[], end: 'end' | 'break' | 'open' = 'end') {
  return () => {
    let next = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        const piece = pieces[next++];
        if (piece !== undefined) controller.enqueue(new TextEncoder().encode(piece));
        else if (end === 'end') controller.close();
        else if (end === 'break') controller.error(new TypeError('terminated'));
        else return new Promise(() => undefined);
        return undefined;
      },
    });
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  };
}

const createEvent = (seq: number, type = 'note'): string =>
  `id: ${seq}\ndata: ${JSON.stringify({ seq, id: `e${seq}`, atMs: 1, body: { type } })}\n\n`;
const END = 'event: end\ndata: {"state":"succeeded"}\n\n';

async function follow(client: ReturnType<typeof openClient>, options: FollowOptions = {}): Promise<readonly number[]> {
  const seen: number[] = [];
  for await (const { seq } of client.runs.follow('r', options)) seen.push(seq);
  return seen;
}

test('each event arrives once over connections that break, end early and repeat events', async () => {
  const troubles: VoidboxError[] = [];
  const { client, requests } = connectTo([
    stream([createEvent(1), createEvent(2), createEvent(3).slice(0, -20)], 'break'),
    breakOff,
    stream([createEvent(1), createEvent(2), createEvent(3), ':\n\n']),
    () => new Response('<h1>Bad gateway</h1>', { status: 502 }),
    refuse(503, {}, 'host/disk-full'),
    stream([createEvent(4), END, createEvent(5)]),
  ]);
  expect(await follow(client, { onTrouble: (error) => troubles.push(error) })).toEqual([1, 2, 3, 4]);
  expect(requests.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, '2', '2', '3', '3', '3']);
  expect(requests[5]!.url).toBe(`${URL_OF_SERVICE}/api/v1/runs/r/events?after=3`);
  expect(troubles).toHaveLength(5);
});

test('each line of a log arrives once over connections that break, end early and repeat lines', async () => {
  const lines = (seq: number, ...texts: readonly string[]): string =>
    `id: ${seq}\n${texts.map((text) => `data: ${text}\n`).join('')}\n`;
  const { client, requests } = connectTo([
    stream([lines(3, 'a', 'b'), lines(4, 'lost').slice(0, -1)], 'break'),
    breakOff,
    stream([lines(2, 'again'), lines(4, 'c', ''), lines(4, 'without an end')]),
    stream([lines(5, 'd'), END]),
  ]);
  const seen: string[] = [];
  const options = { tail: 5, grep: 'a b', timestamps: true, outputOnly: true };
  const log = client.runs.followLogs('r', options);
  let next = await log.next();
  for (; next.done !== true; next = await log.next()) seen.push(next.value);
  expect(seen).toEqual(['a', 'b', 'c', '', 'without an end', 'd']);
  expect(next.value).toEqual({ state: 'succeeded' });
  expect(requests.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, '3', '3', '4']);
  expect(requests[3]!.url).toBe(`${URL_OF_SERVICE}/api/v1/runs/r/logs?grep=a%20b&tail=5&timestamps=true&output=only`);
});

test.each(['data: a\n\n', 'id: x\ndata: a\n\n', `id: ${'9'.repeat(20)}\ndata: a\n\n`])(
  'a line of a followed log that cannot be resumed is a foreign answer: %j',
  async (text) => {
    const { client } = connectTo([stream([text])], { awayMs: 0 });
    expect(await failureOf(client.runs.followLogs('r').next())).toBeInstanceOf(ForeignAnswerError);
  },
);

test('a log has a limit for its lines, and a history has only steps', async () => {
  const long = connectTo([() => new Response('x'.repeat(2_000))], { eventBytes: 1_000 }).client;
  expect(await failureOf(long.runs.logs('r').next())).toBeInstanceOf(ForeignAnswerError);
  for (const line of ['[]', '{"step":1,"turn":1}', 'no JSON']) {
    const { client } = connectTo([() => new Response(`${line}\n`)]);
    expect(await failureOf(client.sessions.history('s').next())).toBeInstanceOf(ForeignAnswerError);
  }
});

test('a start of a session and the end of a VM are sent once, an answer of a step and actions with a key again', async () => {
  const attempt = async (call: (client: ReturnType<typeof openClient>) => Promise<unknown>) => {
    const { client, requests } = connectTo([breakOff]);
    expect(await failureOf(call(client))).toBeInstanceOf(ConnectionError);
    return requests;
  };
  expect(await attempt(({ sessions }) => sessions.start({ skill: 'a', session: 's' }))).toHaveLength(1);
  expect(await attempt(({ vms }) => vms.end({ runId: 'r', stage: 'a' }))).toHaveLength(1);
  expect(await attempt(({ sessions }) => sessions.advance('s', { step: 'a', turn: 1 }))).toHaveLength(3);
  const acts = await attempt(({ runs }) => runs.act({ action: 'cancel', runs: ['r'] }));
  expect(new Set(acts.map(({ headers }) => headers['idempotency-key'])).size).toBe(1);
  expect(acts).toHaveLength(3);
});

test('a call about a session waits over several answers, at most its time', async () => {
  const working = answerJson({ session: 's', result: null }, 202);
  const done = answerJson({ session: 's', result: { kind: 'done' } });
  const { client, requests } = connectTo([working, working, done]);
  expect(await client.sessions.start({ skill: 'a', session: 's' })).toMatchObject({ result: { kind: 'done' } });
  expect(requests.map(({ method, url }) => `${method} ${url.slice(URL_OF_SERVICE.length)}`)).toEqual([
    'POST /api/v1/sessions?wait=60',
    'GET /api/v1/sessions/s/result?wait=60',
    'GET /api/v1/sessions/s/result?wait=60',
  ]);
  const never = connectTo([working]);
  expect(await never.client.sessions.result('s', { timeoutMs: 0 })).toEqual({ session: 's', result: null });
  expect(never.requests).toHaveLength(1);
  await expect(never.client.sessions.result('s', { timeoutMs: -1 })).rejects.toThrow(TypeError);
});

test('a service whose certificate is refused is asked once, also by a follower', async () => {
  const refuseCertificate = () => {
    const cause = Object.assign(new Error('self-signed certificate'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
    return Promise.reject(new TypeError('fetch failed', { cause }));
  };
  const { client, requests } = connectTo([refuseCertificate]);
  const failure = await failureOf(client.runs.get('r'));
  expect(failure).toMatchObject({ isLasting: true, detail: expect.stringContaining('is not accepted') as string });
  expect(await failureOf(follow(client))).toBeInstanceOf(ConnectionError);
  expect(requests).toHaveLength(2);
});

test('an event may arrive in any pieces and with any ends of lines', async () => {
  const text = `${createEvent(1)}${createEvent(2, 'grüße')}${END}`.replaceAll('\n', '\r\n');
  const { client } = connectTo([stream([...text])]);
  expect(await follow(client, { output: false })).toEqual([1, 2]);
});

test.each([
  ['a line', ['data: ', 'x'.repeat(1_000)]],
  ['an event of many lines', Array.from({ length: 500 }, () => 'data:x\n')],
  ['a comment', [':'.repeat(1_001)]],
])('%s above the limit ends the stream', async (_what, pieces) => {
  const { client, requests } = connectTo([stream(pieces, 'open')], { eventBytes: 990 });
  const failure = await failureOf(follow(client));
  expect(failure).toBeInstanceOf(ForeignAnswerError);
  expect(failure.message).toContain('990');
  expect(requests).toHaveLength(1);
});

test.each([
  ['no JSON', 'data: {\n\n'],
  ['a list', 'data: []\n\n'],
  ['an event without a place', `data: ${JSON.stringify({ seq: 0, id: 'a', atMs: 1, body: { type: 'x' } })}\n\n`],
  ['an event without a body', `data: ${JSON.stringify({ seq: 1, id: 'a', atMs: 1, body: null })}\n\n`],
  ['an end without a state', 'event: end\ndata: {}\n\n'],
])('a stream with %s is no answer of Voidbox', async (_what, text) => {
  const { client } = connectTo([stream([text], 'open')]);
  expect(await failureOf(follow(client))).toBeInstanceOf(ForeignAnswerError);
});

test('a problem within a stream is the error of the follower', async () => {
  const problem = { status: 500, code: 'store/damaged', detail: 'damaged', remedy: null, fault: 'failed' };
  const { client } = connectTo([stream([createEvent(1), `event: problem\ndata: ${JSON.stringify(problem)}\n\n`])]);
  expect(await failureOf(follow(client))).toMatchObject({ name: 'ApiError', code: 'store/damaged', fault: 'failed' });
});

test('a silent stream is opened again, and a service that stays away ends the follower', async () => {
  // Only the first stream has bytes: a service that sends any is not away.
  const answers = [stream([createEvent(1)], 'open'), stream([], 'open')];
  const { client, requests } = connectTo(answers, { silenceMs: 40, awayMs: 100 });
  // On a loaded machine all of this time can pass before the first stream counts as silent.
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const failed = failureOf(follow(client));
  await vi.advanceTimersByTimeAsync(10_000);
  const failure = await failed;
  expect(failure).toBeInstanceOf(ConnectionError);
  expect(failure.message).toContain('sends nothing');
  expect(requests.length).toBeGreaterThan(1);
});

test('a run that the service does not know yet is asked for again, and then is an error', async () => {
  const unknown = refuse(404, {}, 'api/no-run');
  const { client } = connectTo([unknown, unknown, stream([createEvent(1), END])], { unknownMs: 10_000 });
  expect(await follow(client)).toEqual([1]);
  expect(await failureOf(follow(connectTo([unknown]).client))).toMatchObject({ code: 'api/no-run', status: 404 });
});

test.each([401, 403, 500])('a follower does not try again after the status %i', async (status) => {
  const { client, requests } = connectTo([refuse(status)]);
  expect(await failureOf(follow(client))).toMatchObject({ name: 'ApiError', status });
  expect(requests).toHaveLength(1);
});

test('a signal ends a follower while it reads, waits for an answer, and pauses', async () => {
  const reason = new Error('enough');
  const places: readonly (readonly (() => Response | Promise<Response>)[])[] = [
    [stream([createEvent(1)], 'open')],
    [() => new Promise(() => undefined)],
    [breakOff],
  ];
  for (const answers of places) {
    const { client } = connectTo(answers, { followPauseMs: 30_000 });
    const gone = new AbortController();
    const followed = failureOf(follow(client, { signal: gone.signal, onTrouble: () => gone.abort(reason) }));
    setImmediate(() => gone.abort(reason));
    expect(await followed).toBe(reason);
  }
});

test('a read is tried again after a connection that broke, and a start, a retry and a fork with the same key', async () => {
  const read = connectTo([breakOff, breakOff, answerJson({ version: '1', api: 'v1' })]);
  expect(await read.client.version()).toMatchObject({ version: '1' });
  for (const kind of ['start', 'retry', 'fork'] as const) {
    const { client, requests } = connectTo([breakOff, answerJson({ runId: 'a' }, 201)]);
    const { runs } = client;
    const started = { start: () => runs.start({}), retry: () => runs.retry('b'), fork: () => runs.fork('b', {}) };
    expect(await started[kind]()).toEqual({ runId: 'a' });
    const keys = requests.map(({ headers }) => headers['idempotency-key']);
    expect(keys).toEqual([keys[0], keys[0]]);
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
  }
});

test('a cancel is sent again only if it cannot end stages with `finally`', async () => {
  const receipt = answerJson({ runId: 'a', state: 'cancelling', wasRunning: true });
  const gentle = connectTo([breakOff, receipt]);
  await gentle.client.runs.cancel('a', { waitMs: 1_500 });
  expect(gentle.requests[1]!.url).toContain('/runs/a/cancel?finally=keep&wait=2');
  const hard = connectTo([breakOff, receipt]);
  expect(await failureOf(hard.client.runs.cancel('a', { keepsFinally: false }))).toMatchObject({
    name: 'ConnectionError',
    status: null,
  });
  expect(hard.requests).toHaveLength(1);
});

test('429 is waited for by its `Retry-After`, and a long one is the error', async () => {
  const limited = connectTo([refuse(429, { 'retry-after': '0' }), answerJson({ runId: 'b' }, 201)]);
  expect(await limited.client.runs.retry('a')).toMatchObject({ runId: 'b' });
  const long = connectTo([refuse(429, { 'retry-after': '60' })]);
  expect(await failureOf(long.client.runs.get('a'))).toMatchObject({ status: 429, retryAfterMs: 60_000 });
  expect(long.requests).toHaveLength(1);
  const followed = connectTo([refuse(429, { 'retry-after': '60' }), stream([createEvent(1), END])]);
  expect(await follow(followed.client)).toEqual([1]);
});

test('a result is asked for until the run ends, or the time of the caller is over', async () => {
  const { client, requests } = connectTo([answerJson({ state: 'running' }, 202), answerJson({ state: 'failed' })]);
  expect(await client.runs.result('a')).toMatchObject({ state: 'failed' });
  expect(requests.map(({ url }) => url.split('?')[1])).toEqual(['wait=60', 'wait=60']);
  const open = connectTo([answerJson({ state: 'running' }, 202)]);
  expect(await open.client.runs.result('a', { timeoutMs: 0 })).toMatchObject({ state: 'running' });
  expect(open.requests).toHaveLength(1);
});

test('a service that cannot start runs says what is missing', async () => {
  const { client } = connectTo([answerJson({ isReady: false, missing: [{ part: 'disk', problem: 'full' }] }, 503)]);
  expect(await client.ready()).toEqual({ isReady: false, missing: [{ part: 'disk', problem: 'full' }] });
  expect(await failureOf(connectTo([refuse(503)]).client.ready())).toBeInstanceOf(ApiError);
});

test.each([
  ['a page of another program', () => new Response('<h1>Hello</h1>')],
  ['a list of JSON', answerJson([])],
  ['a redirect', () => new Response(null, { status: 302, headers: { location: 'https://example.org/' } })],
  [
    'a problem without a code',
    () => new Response('{}', { status: 500, headers: { 'content-type': 'application/problem+json' } }),
  ],
])('%s is no answer of Voidbox', async (_what, answer) => {
  const { client, requests } = connectTo([answer]);
  expect(await failureOf(client.version())).toMatchObject({ name: 'ForeignAnswerError', code: 'cli/no-service' });
  expect(requests).toHaveLength(1);
});

test('an answer of JSON, a problem and an output have a limit of size', async () => {
  const endless = stream(
    Array.from({ length: 100 }, () => ' '.repeat(100)),
    'open',
  );
  const limits = { jsonBytes: 9_000, problemBytes: 9_000, artifactBytes: 9_000 };
  const refused = () => new Response(endless().body, { status: 500 });
  for (const work of [
    connectTo([endless], limits).client.version(),
    connectTo([refused], limits).client.version(),
    connectTo([endless], limits).client.runs.readArtifact('a', { stage: 'b' }),
  ])
    expect((await failureOf(work)).message).toContain('more than 9000 bytes');
});

test('an answer without an end has a limit of time, and is not asked for again', async () => {
  const drip = () =>
    new Response(
      new ReadableStream<Uint8Array>({
        async pull(controller) {
          await new Promise((resolve) => setTimeout(resolve, 1));
          controller.enqueue(new TextEncoder().encode(' '));
        },
      }),
    );
  const { client, requests } = connectTo([drip], { wholeMs: 20 });
  expect((await failureOf(client.version())).message).toBe(`an answer of ${URL_OF_SERVICE} does not end within 0.02 s`);
  expect(requests).toHaveLength(1);
});

test('a service that does not answer in time is an error, also if `fetch` ignores its signal', async () => {
  const { client } = connectTo([() => new Promise(() => undefined)], { answerMs: 40, pausesMs: [] });
  expect((await failureOf(client.version())).message).toBe(`${URL_OF_SERVICE} does not answer within 0.04 s`);
});

test('the token is in a header, and in no URL and no error', async () => {
  const { client, requests } = connectTo([breakOff], { pausesMs: [] });
  const failure = await failureOf(client.runs.get('a/b ü'));
  expect(requests[0]).toMatchObject({
    url: `${URL_OF_SERVICE}/api/v1/runs/a%2Fb%20%C3%BC`,
    headers: { authorization: `Bearer ${TOKEN}` },
    // The token would follow a redirect.
    redirect: 'manual',
    credentials: 'omit',
  });
  expect(JSON.stringify({ ...failure, text: String(failure), stack: failure.stack })).not.toContain('voidbox_s');
  expect(JSON.stringify(client)).not.toContain('voidbox_s');
});

test.each(['', '.', '..', '\ud800'])('the id %j is refused before a request', async (runId) => {
  const { client, requests } = connectTo([answerJson({})]);
  expect(await failureOf(client.runs.get(runId))).toBeInstanceOf(TypeError);
  expect(requests).toHaveLength(0);
});

test.each([
  ['a text', 'build'],
  ['another scheme', 'ftp://build.example.org'],
  ['a password', 'https://ada:secret@build.example.org'],
  ['a path', 'https://build.example.org/api'],
  ['a query', 'https://build.example.org/?token=x'],
])('a URL that is %s is refused', (_what, url) => {
  expect(() => readTarget({ url })).toThrow(TypeError);
  expect(() => readTarget({ url })).not.toThrow(/secret|token=x/);
});

test('a token goes over HTTP to this machine only, and a page needs no URL', () => {
  for (const url of ['http://localhost:8080', 'http://127.0.0.1:8080', 'http://[::1]:8080'])
    expect(readTarget({ url, token: TOKEN }).token).toBe(TOKEN);
  expect(() => readTarget({ url: 'http://10.0.0.1', token: TOKEN })).toThrow('without encryption');
  expect(() => readTarget({ url: URL_OF_SERVICE, token: 'two\nlines' })).toThrow('not the text of a token');
  expect(readTarget({}, { location: { origin: URL_OF_SERVICE } }).origin).toBe(URL_OF_SERVICE);
  expect(() => readTarget({}, {})).toThrow('`url` is missing');
});

test('a connection that fails names its reason, and a certificate of your own its remedy', async () => {
  const failWith = (cause: unknown) => () => Promise.reject(new TypeError('fetch failed', { cause }));
  const withCode = (message: string, code: string) => Object.assign(new Error(message), { code });
  const refused = withCode('connect ECONNREFUSED 127.0.0.1:7443', 'ECONNREFUSED');
  for (const cause of [refused, new AggregateError([refused])])
    expect(await failureOf(connectTo([failWith(cause)]).client.health())).toMatchObject({
      detail: `cannot reach ${URL_OF_SERVICE}: connect ECONNREFUSED 127.0.0.1:7443`,
      remedy: expect.stringContaining('voidbox up --listen') as string,
    });
  const selfSigned = withCode('self-signed certificate', 'DEPTH_ZERO_SELF_SIGNED_CERT');
  expect(await failureOf(connectTo([failWith(selfSigned)]).client.health())).toMatchObject({
    code: 'cli/no-service',
    detail: `the certificate of ${URL_OF_SERVICE} is not accepted: self-signed certificate`,
    remedy: expect.stringContaining('NODE_EXTRA_CA_CERTS') as string,
  });
});
