import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Machine } from '../app/machine.ts';
import type { RunEventBody } from '../domain/run/event.ts';
import { CodedError } from '../domain/errors/coded-error.ts';
import type { Stores } from '../store/stores.ts';
import { leaveFinishedRuns } from '../test/cli/finished-runs.ts';
import { CANCELLED, createAdmitted } from '../test/rig/runs/asked-machine.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { readEnvironment } from '../setup/environment.ts';
import { openStores } from '../store/open-stores.ts';
import { listRouteAccess } from './access/route-scopes.ts';
import { openUploads } from '../store/open-uploads.ts';
import { type Api, createApi } from './api.ts';
import type { ApiOptions } from './api-options.ts';
import { API_LIMITS, type ApiLimits } from './limits.ts';
import { createToken } from '../app/access/tokens.ts';
import { createMemoryAccess } from '../test/rig/access/memory-access.ts';
import { openAsOwner, refuseAccess } from '../test/rig/access/owner.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { ProblemSchema, ResultSchema, RunListSchema, RunSchema, StageListSchema } from './schemas.ts';

const dir = mkdtempSync(join(tmpdir(), 'voidbox-api-'));
const env = readEnvironment({ VOIDBOX_STATE_DIR: join(dir, 'state'), VOIDBOX_CACHE_DIR: join(dir, 'cache') });
let stores: Stores;
const logged: string[] = [];

beforeAll(async () => {
  await leaveFinishedRuns(env.stateDir);
  stores = await openStores(env);
});
afterAll(async () => {
  await stores.close();
  rmSync(dir, { recursive: true, force: true });
});

/** Makes stores with one run, which was admitted and has not ended. */
async function leaveOpenRun(runId: string): Promise<Stores> {
  const memory = openMemoryStores(new MemoryPlace());
  for await (const { id, atMs, body } of stores.reader.read('sales-good', 0)) {
    await memory.events.append(runId, [{ id, atMs, body }]);
    break;
  }
  return memory;
}

/** The API as the owner of the state folder reaches it. */
function apiOf(change: Partial<Machine> = {}, limits: Partial<ApiLimits> = {}): Pick<Api, 'request'> {
  return openAsOwner(createApi(optionsOf(change, limits)));
}

function optionsOf(change: Partial<Machine> = {}, limits: Partial<ApiLimits> = {}): ApiOptions {
  const machine: Machine = createTestMachine(stores, { env, ...change });
  return {
    machine,
    uploads: openUploads(env),
    access: refuseAccess,
    version: '1.2.3',
    limits: { ...API_LIMITS, ...limits },
    log: (line) => logged.push(line),
  };
}

async function get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  return await apiOf().request(path, { headers });
}

async function post(body: unknown, headers: Readonly<Record<string, string>> = {}, path = 'runs'): Promise<Response> {
  return await apiOf().request(`/api/v1/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
  });
}

async function problemOf(response: Response): Promise<ReturnType<typeof ProblemSchema.parse>> {
  expect(response.headers.get('content-type')).toBe('application/problem+json');
  const problem = ProblemSchema.parse(await response.json());
  expect(problem.status).toBe(response.status);
  return problem;
}

/** Returns the fields of an event stream, an object for each event. */
function parseSse(text: string): readonly Readonly<Record<string, string>>[] {
  return text
    .split('\n\n')
    .filter((block) => block !== '')
    .map((block) => Object.fromEntries(block.split('\n').map((line) => line.split(/: ?(.*)/s).slice(0, 2))));
}

describe('reads of runs', () => {
  test('the list has a page of runs and a cursor for the next one', async () => {
    const first = RunListSchema.parse(await (await get('/api/v1/runs?limit=1')).json());
    const second = RunListSchema.parse(await (await get(`/api/v1/runs?limit=1&cursor=${first.next}`)).json());
    expect([...first.runs, ...second.runs].map(({ runId }) => runId).toSorted()).toEqual(['sales-bad', 'sales-good']);
    expect(second.next).toBeNull();
    const failed = RunListSchema.parse(await (await get('/api/v1/runs?state=failed&name=sales')).json());
    expect(failed.runs.map(({ runId }) => runId)).toEqual(['sales-bad']);
    const later = RunListSchema.parse(await (await get('/api/v1/runs?since=2099-01-01T00:00:00Z')).json());
    expect(later.runs).toEqual([]);
  });

  test('a page has 50 runs by default, and 200 if the query asks for them', async () => {
    const memory = openMemoryStores(new MemoryPlace());
    for (let count = 1; count <= 201; count += 1)
      await memory.events.append(`r${count}`, [{ ...createAdmitted(), atMs: count }, CANCELLED]);
    const api = apiOf({ stores: () => Promise.resolve(memory) });
    const countPage = async (query: string): Promise<number> =>
      RunListSchema.parse(await (await api.request(`/api/v1/runs${query}`)).json()).runs.length;
    expect(await countPage('')).toBe(50);
    expect(await countPage('?limit=200')).toBe(200);
  });

  test('a run has the fields that the document promises, and those of the command line', async () => {
    const run: unknown = await (await get('/api/v1/runs/sales-bad')).json();
    expect(RunSchema.parse(run)).toMatchObject({ state: 'failed', failedStage: 'check' });
    expect(run).toHaveProperty('stages.0.vmm');
  });

  test('the stages of a run have their order, in pages', async () => {
    const read = async (query: string) =>
      StageListSchema.parse(await (await get(`/api/v1/runs/sales-bad/stages${query}`)).json());
    const all = await read('');
    expect(all).toMatchObject({ stages: [{ id: 'load' }, { id: 'check', exitCode: 3 }, { id: 'report' }], next: null });
    const first = await read('?limit=2');
    expect([first.stages.length, first.next]).toEqual([2, '2']);
    expect(await read(`?limit=2&cursor=${first.next}`)).toEqual({ stages: all.stages.slice(2), next: null });
    expect(await read('?cursor=99999')).toEqual({ stages: [], next: null });
  });

  test('a page has at most 200 stages', async () => {
    const memory = openMemoryStores(new MemoryPlace());
    const { id, atMs, body } = createAdmitted();
    const stages = Array.from({ length: 201 }, (_, at) => ({ id: `s${at}`, dependsOn: [] }));
    await memory.events.append('wide', [{ id, atMs, body: { ...body, stages } as RunEventBody }, CANCELLED]);
    const api = apiOf({ stores: () => Promise.resolve(memory) });
    const page = StageListSchema.parse(await (await api.request('/api/v1/runs/wide/stages')).json());
    expect([page.stages.length, page.next]).toEqual([200, '200']);
  });

  test('the result of a run that has ended has the text of its output', async () => {
    const response = await get('/api/v1/runs/sales-good/result?wait=60');
    expect(response.status).toBe(200);
    expect(ResultSchema.parse(await response.json())).toMatchObject({ state: 'succeeded', outputText: 'the result\n' });
  });

  test('the result of an open run is there after the wait, with the status 202', async () => {
    const memory = await leaveOpenRun('open');
    const api = apiOf({ stores: () => Promise.resolve(memory) });
    const before = Date.now();
    const response = await api.request('/api/v1/runs/open/result?wait=1');
    expect(Date.now() - before).toBeGreaterThan(900);
    expect(response.status).toBe(202);
    expect(ResultSchema.parse(await response.json())).toMatchObject({ state: 'running', outputText: null });
  });

  test('a cancel of a run that has ended changes nothing and needs no server', async () => {
    const response = await post('', {}, 'runs/sales-bad/cancel');
    expect(await response.json()).toEqual({ runId: 'sales-bad', state: 'failed', wasRunning: false });
  });
});

describe('events', () => {
  test('lines of JSON have every event, or those after a `seq`', async () => {
    const response = await get('/api/v1/runs/sales-good/events');
    expect(response.headers.get('content-type')).toBe('application/jsonl');
    const seqs = (text: string): number[] =>
      text
        .trimEnd()
        .split('\n')
        .map((line) => (JSON.parse(line) as { seq: number }).seq);
    const all = seqs(await response.text());
    expect(all).toEqual(all.map((_seq, index) => index + 1));
    expect(seqs(await (await get('/api/v1/runs/sales-good/events?after=3')).text())).toEqual(all.slice(3));
  });

  test('an event stream has `seq` as its id, and ends with the event `end`', async () => {
    const response = await get('/api/v1/runs/sales-good/events', { accept: 'text/event-stream' });
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    const events = parseSse(await response.text());
    const end = events.at(-1)!;
    expect(end).toEqual({ event: 'end', data: '{"state":"succeeded"}' });
    const rest = events.slice(0, -1);
    expect(rest.map(({ id }) => Number(id))).toEqual(rest.map((_event, index) => index + 1));
    expect(rest.map(({ data }) => (JSON.parse(data!) as { seq: number }).seq)).toEqual(
      rest.map(({ id }) => Number(id)),
    );
  });

  test('an event stream resumes after `Last-Event-ID`, also after the last event', async () => {
    const idsAfter = async (seq: number): Promise<readonly (string | undefined)[]> =>
      parseSse(
        await (
          await get('/api/v1/runs/sales-good/events?after=1', {
            accept: 'text/event-stream',
            'last-event-id': String(seq),
          })
        ).text(),
      ).map(({ id, event }) => id ?? event);
    const all = await idsAfter(0);
    expect(await idsAfter(4)).toEqual(all.slice(4));
    expect(await idsAfter(all.length - 1)).toEqual(['end']);
  });

  test('a silent event stream sends comments, and ends when its reader leaves', async () => {
    const memory = await leaveOpenRun('open');
    const signals: AbortSignal[] = [];
    const { reader } = memory;
    const watched: Stores = {
      ...memory,
      reader: {
        read: reader.read.bind(reader),
        follow: (runId, after, signal, options) => {
          signals.push(signal);
          return reader.follow(runId, after, signal, options);
        },
      },
    };
    const api = apiOf({ stores: () => Promise.resolve(watched) }, { heartbeatMs: 20 });
    const response = await api.request('/api/v1/runs/open/events', { headers: { accept: 'text/event-stream' } });
    const stream = response.body!.getReader();
    const texts: string[] = [];
    for (let count = 0; count < 3; count += 1) texts.push(Buffer.from((await stream.read()).value!).toString());
    expect(texts[0]).toMatch(/^id: 1\n/);
    expect(texts.slice(1)).toEqual([':\n\n', ':\n\n']);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
    await stream.cancel();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
  });

  test('a run whose log cannot be read ends the stream with the event `problem`', async () => {
    const unreadable: Stores = {
      ...stores,
      reader: {
        ...stores.reader,
        read: () => {
          throw Object.assign(new Error('no space'), { code: 'ENOSPC' });
        },
      },
    };
    const api = apiOf({ stores: () => Promise.resolve(unreadable) });
    const response = await api.request('/api/v1/runs/sales-good/events', { headers: { accept: 'text/event-stream' } });
    const [event] = parseSse(await response.text());
    expect(event!['event']).toBe('problem');
    expect(JSON.parse(event!['data']!)).toMatchObject({ status: 503, code: 'host/disk-full' });
  });
});

describe('uploads', () => {
  const bytes = Buffer.from('the bytes of a tar');
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const upload = async (path: string, body: Uint8Array, headers: Readonly<Record<string, string>> = {}) =>
    await apiOf().request(`/api/v1/blobs/${path}`, { method: 'PUT', body, headers });

  test('HEAD finds an upload by its hash, before and after it is sent', async () => {
    const head = async () => await apiOf().request(`/api/v1/blobs/${sha256}`, { method: 'HEAD' });
    expect((await head()).status).toBe(404);
    expect(await problemOf(await get(`/api/v1/blobs/${sha256}`))).toMatchObject({ status: 404, code: 'api/no-blob' });
    const stored = await upload(sha256, bytes);
    expect(stored.status).toBe(201);
    expect(await stored.json()).toEqual({ sha256, sizeBytes: 18 });
    expect((await head()).status).toBe(200);
    expect(await (await get(`/api/v1/blobs/${sha256}`)).json()).toEqual({ sha256, sizeBytes: 18 });
  });

  test('bytes with another hash are refused', async () => {
    const problem = await problemOf(await upload('a'.repeat(64), bytes));
    expect(problem).toMatchObject({ status: 422, code: 'api/wrong-hash' });
    expect((await get(`/api/v1/blobs/${'a'.repeat(64)}`)).status).toBe(404);
  });

  test.each(['a'.repeat(63), 'A'.repeat(64), '..%2Fruns', `${'a'.repeat(64)}%0a`])('%s is no hash', async (path) => {
    expect(await problemOf(await upload(path, bytes))).toMatchObject({ status: 400, code: 'api/invalid-request' });
    expect(await problemOf(await get(`/api/v1/blobs/${path}`))).toMatchObject({ code: 'api/invalid-request' });
  });

  test('two uploads of one hash at once both succeed', async () => {
    const content = Buffer.from('sent twice at once');
    const hash = createHash('sha256').update(content).digest('hex');
    const answers = await Promise.all([upload(hash, content), upload(hash, content)]);
    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    expect((await get(`/api/v1/blobs/${hash}`)).status).toBe(200);
  });

  test('a cut upload leaves nothing', async () => {
    const hash = createHash('sha256').update('cut').digest('hex');
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(Buffer.from('cu')),
      pull: (controller) => controller.error(new Error('the connection ended')),
    });
    const before = readdirSync(env.stateDir, { recursive: true }).toSorted();
    const request = new Request(`http://localhost/api/v1/blobs/${hash}`, {
      method: 'PUT',
      body,
      duplex: 'half',
    } as RequestInit);
    expect((await apiOf().request(request)).status).toBe(400);
    expect((await get(`/api/v1/blobs/${hash}`)).status).toBe(404);
    expect(readdirSync(env.stateDir, { recursive: true }).toSorted()).toEqual(before);
  });

  test('a size above 2 GiB is refused before the bytes arrive', async () => {
    const headers = { 'content-length': String(2 * 1024 ** 3 + 1) };
    expect(await problemOf(await upload(sha256, bytes, headers))).toMatchObject({ status: 413, code: 'api/too-large' });
  });

  test('compressed bytes are refused', async () => {
    const problem = await problemOf(await upload(sha256, bytes, { 'content-encoding': 'gzip' }));
    expect(problem).toMatchObject({ status: 415, code: 'api/unsupported-body' });
  });

  test.each([
    ['api/uploads-full', 507],
    ['host/disk-full', 503],
  ] as const)('%s has the status %i and a remedy', async (code, status) => {
    const failing = { ...openUploads(env), put: () => Promise.reject(new CodedError(code, 'no room')) };
    const api = openAsOwner(createApi({ ...optionsOf(), uploads: failing }));
    const response = await api.request(`/api/v1/blobs/${sha256}`, { method: 'PUT', body: bytes });
    expect(await problemOf(response)).toMatchObject({ status, code, remedy: expect.stringMatching(/./) });
  });
});

describe('starts with uploads', () => {
  const SPEC =
    'kind: workflow\nname: a\nsandbox: { mounts: [{ host: data, guest: /d, mode: ro }] }\nworkflow: { steps: [{ name: a, run: ls }] }\n';
  const TOKEN = { name: 'ci', scopes: ['run'], runs: [], groups: [], allowGit: [], lifeMs: 60_000 } as const;

  /** Sends a start over TCP, with a token. */
  async function startAsToken(body: unknown): Promise<Response> {
    const access = createMemoryAccess();
    const { text } = await createToken(TOKEN, { tokens: access.tokens, nowMs: Date.now() });
    const api = createApi({ ...optionsOf(), access: () => Promise.resolve(access) });
    return await api.request(
      '/api/v1/runs',
      {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${text}` },
        body: JSON.stringify(body),
      },
      { connection: { listener: 'tcp', address: '192.0.2.7', end: () => undefined } },
    );
  }

  test('an upload that is missing has the status 404', async () => {
    const problem = await problemOf(await post({ spec: SPEC, uploads: { data: 'b'.repeat(64) } }));
    expect(problem).toMatchObject({ status: 404, code: 'api/no-blob' });
  });

  test('a token is refused a folder of the host with the status 403, and the owner is not', async () => {
    const body = { spec: SPEC.replace('host: data', 'host: /etc'), runId: 'of-a-token' };
    expect(await problemOf(await startAsToken(body))).toMatchObject({ status: 403, code: 'admit/mount-refused' });
    expect(await problemOf(await startAsToken({ ...body, baseDir: '/' }))).toMatchObject({
      status: 403,
      code: 'admit/mount-refused',
      detail: expect.stringContaining('`baseDir`'),
    });
    expect(await problemOf(await post({ ...body, baseDir: dir }))).toMatchObject({ code: 'cli/mount-refused' });
    const service = {
      ...body,
      spec: SPEC.replace('mounts: [{ host: data, guest: /d, mode: ro }]', 'services: { db: "127.0.0.1:5432" }'),
    };
    expect(await problemOf(await startAsToken(service))).toMatchObject({ status: 403, code: 'admit/service-refused' });
  });
});

describe('ids', () => {
  const IDS = ['a/b', 'a b', '../../etc/passwd', '%2e%2e', 'ü✓', 'a?b#c', '-x', '.hidden', 'x'.repeat(1_000)];
  test.each(IDS)('the run %j is found under its percent-encoded id', async (runId) => {
    const memory = await leaveOpenRun(runId);
    const api = apiOf({ stores: () => Promise.resolve(memory) });
    const response = await api.request(`/api/v1/runs/${encodeURIComponent(runId)}`);
    expect(await response.json()).toMatchObject({ runId });
  });

  test.each([
    ['a beginning of an id', 'sales', 404, 'api/no-run'],
    ['`latest`', 'latest', 404, 'api/no-run'],
    ['an id of 1,001 bytes', 'x'.repeat(1_001), 404, 'api/no-run'],
    ['a path', encodeURIComponent('../runs/sales-good'), 404, 'api/no-run'],
    ['a zero byte', '%00', 404, 'api/no-run'],
    ['a byte that is not UTF-8', '%ff', 400, 'api/invalid-request'],
    ['a lone percent sign', '%', 400, 'api/invalid-request'],
  ])('%s names no run', async (_what, id, status, code) => {
    for (const route of ['', '/events', '/result']) {
      const response = await get(`/api/v1/runs/${id}${route}`);
      expect(await problemOf(response)).toMatchObject({ status, code });
    }
  });
});

describe('requests that are refused', () => {
  const SPEC = 'kind: workflow\nname: a\nworkflow: { steps: [{ name: a, run: ls }] }\n';

  test.each([
    ['/', 'GET'],
    ['/api/v1/runs/sales-good/steps', 'GET'],
    ['/api/v1/runs/sales-good', 'DELETE'],
    ['/api/v2/runs', 'GET'],
  ])('%s with %s is no route', async (path, method) => {
    expect(await problemOf(await apiOf().request(path, { method }))).toMatchObject({
      status: 404,
      code: 'api/no-route',
    });
  });

  test('a spec with mistakes is refused with all diagnostics and their places', async () => {
    const spec =
      'kind: workflow\nname: a\nworkflow:\n  steps:\n    - { name: a, run: ls, depends_on: [gone] }\n    - { name: b, run: ls, depends_on: [none] }\n';
    const problem = await problemOf(await post({ spec, baseDir: dir }));
    expect(problem).toMatchObject({ status: 422, code: 'spec/invalid' });
    const errors = problem.diagnostics!.filter(({ severity }) => severity === 'error');
    expect(new Set(errors.map(({ line }) => line))).toEqual(new Set([5, 6]));
    expect(errors.every(({ file, column }) => file === 'spec' && column > 0)).toBe(true);
  });

  test.each([
    ['no spec', { baseDir: '/' }, '`spec`'],
    ['no folder', { spec: SPEC }, '`baseDir`'],
    ['a spec and a plan', { spec: SPEC, plan: {}, baseDir: '/' }, '`plan`'],
    ['a plan that is a text', { plan: '{}' }, '`plan`'],
    ['a plan without stages', { plan: { name: 'a' } }, '`plan`: '],
    ['an upload that is no hash', { spec: SPEC, uploads: { data: 'x' } }, '`uploads.data`'],
    ['a relative folder', { spec: SPEC, baseDir: 'here' }, 'absolute'],
    ['a further key', { spec: SPEC, baseDir: '/', by: 'x' }, 'by'],
    ['a parameter that is a number', { spec: SPEC, baseDir: '/', params: { a: 1 } }, '`params.a`'],
    ['a lone surrogate', { spec: SPEC, baseDir: '/', input: '\ud800' }, 'Unicode'],
    ['an id of 1,001 bytes', { spec: SPEC, baseDir: '/', runId: 'x'.repeat(1_001) }, '1001 bytes'],
    [
      'variables of 64 KiB and a byte',
      { spec: SPEC, baseDir: '/', variables: { a: 'x'.repeat(65_536) } },
      '65536 bytes',
    ],
    ['a list', [], 'request'],
    ['a number that would be rounded', `{"plan":{"x":[0.12345678901234567891]}}`, '0.12345678901234567891'],
    ['a parameter that a copy would lose', { spec: SPEC, params: { ['__proto__']: 'x' } }, '`params.__proto__`'],
    ['an upload that a copy would lose', { spec: SPEC, uploads: { ['__proto__']: 'x' } }, '`uploads.__proto__`'],
  ])('a start with %s is refused', async (_what, body, reason) => {
    const problem = await problemOf(await post(body));
    expect(problem).toMatchObject({ status: 400, code: 'api/invalid-request' });
    expect(problem.detail).toContain(reason);
  });

  test('variables of exactly 64 KiB are accepted', async () => {
    const variables = { a: 'x'.repeat(65_535) };
    expect(await problemOf(await post({ spec: 'x: 1', baseDir: dir, variables }))).toMatchObject({
      code: 'spec/invalid',
    });
  });

  test.each([
    ['a wait of 61 s', 'runs/sales-good/result?wait=61'],
    ['a negative wait', 'runs/sales-good/result?wait=-1'],
    ['an unknown parameter', 'runs/sales-good/result?weit=1'],
    ['a page of 201 runs', 'runs?limit=201'],
    ['a page of no runs', 'runs?limit=0'],
    ['a page of 201 stages', 'runs/sales-good/stages?limit=201'],
    ['a cursor of stages that is no number', 'runs/sales-good/stages?cursor=x'],
    ['an unknown state', 'runs?state=done'],
    ['a forged cursor', 'runs?cursor=x'],
    ['a cursor of another shape', `runs?cursor=${Buffer.from('{"a":1}').toString('base64url')}`],
    ['a time without a zone', 'runs?since=2026-01-01T00:00:00'],
    ['a position that is no number', 'runs/sales-good/events?after=x'],
  ])('%s is refused', async (_what, path) => {
    expect(await problemOf(await get(`/api/v1/${path}`))).toMatchObject({ status: 400, code: 'api/invalid-request' });
  });

  test('a `Last-Event-ID` that is no number is refused', async () => {
    const response = await get('/api/v1/runs/sales-good/events', { 'last-event-id': 'x' });
    expect(await problemOf(response)).toMatchObject({ status: 400, code: 'api/invalid-request' });
  });

  test.each([
    ['compressed', { 'content-encoding': 'gzip' }],
    ['compressed by nothing', { 'content-encoding': 'identity' }],
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['plain text', { 'content-type': 'text/plain' }],
    ['another kind of JSON', { 'content-type': 'application/problem+json' }],
    ['lines of JSON', { 'content-type': 'application/jsonl' }],
  ])('a body that is %s is refused', async (_what, headers) => {
    const problem = await problemOf(await post({ spec: SPEC, baseDir: '/' }, headers));
    expect(problem).toMatchObject({ status: 415, code: 'api/unsupported-body' });
  });

  test.each([
    ['a type that is no JSON', { 'content-type': 'text/plain' }, { status: 415, code: 'api/unsupported-body' }],
    ['no type', {}, { status: 400, code: 'api/invalid-request' }],
  ])('a start without a body and with %s is refused', async (_what, headers, expected) => {
    const response = await apiOf().request('/api/v1/runs', { method: 'POST', headers });
    expect(await problemOf(response)).toMatchObject(expected);
  });

  test('a body has the type `application/json` with any parameters', async () => {
    for (const type of ['application/json; charset=utf-8', 'Application/JSON; x=y', 'application/json'])
      expect(await problemOf(await post('[]', { 'content-type': type }))).toMatchObject({ status: 400 });
  });

  test('a `Content-Encoding` without a body is refused, too', async () => {
    const problem = await problemOf(await get('/api/v1/health', { 'content-encoding': 'gzip' }));
    expect(problem).toMatchObject({ status: 415, code: 'api/unsupported-body' });
  });

  test('a body has at most 4 MiB', async () => {
    const bodyOf = (bytes: number): string => JSON.stringify({ x: 'x'.repeat(bytes - '{"x":""}'.length) });
    expect(await problemOf(await post(bodyOf(4 * 1024 * 1024 + 1)))).toMatchObject({
      status: 413,
      code: 'api/too-large',
    });
    expect(await problemOf(await post(bodyOf(4 * 1024 * 1024)))).toMatchObject({ code: 'api/invalid-request' });
  });

  test('a body that arrives in pieces has at most 4 MiB, too', async () => {
    let left = 64;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (left-- === 0) controller.close();
        else controller.enqueue(new Uint8Array(1024 * 1024));
      },
    });
    const request = new Request('http://localhost/api/v1/runs', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
      duplex: 'half',
    } as RequestInit);
    expect(await problemOf(await apiOf().request(request))).toMatchObject({ status: 413, code: 'api/too-large' });
    // It is not read to its end.
    expect(left).toBeGreaterThan(50);
  });

  test('a body has at most 100 levels; brackets in texts do not count', async () => {
    const levels = (count: number): string => '['.repeat(count) + ']'.repeat(count);
    expect(await problemOf(await post(levels(101)))).toMatchObject({ status: 413, code: 'api/too-large' });
    expect(await problemOf(await post(levels(100)))).toMatchObject({ code: 'api/invalid-request' });
    expect(await problemOf(await post({ x: `\\"${'['.repeat(200)}` }))).toMatchObject({ code: 'api/invalid-request' });
    expect(await problemOf(await post('['.repeat(1_000_000)))).toMatchObject({ status: 413, code: 'api/too-large' });
  });

  test('a body is parsed once', async () => {
    const body = JSON.stringify({ spec: SPEC });
    const parse = vi.spyOn(JSON, 'parse');
    try {
      await post(body);
      expect(parse.mock.calls.filter(([text]) => text === body)).toHaveLength(1);
    } finally {
      parse.mockRestore();
    }
  });

  test.each([
    ['text that is not JSON', '{"spec":'],
    ['bytes that are not UTF-8', Uint8Array.from([0x22, 0xff, 0x22])],
  ])('%s is refused', async (_what, body) => {
    expect(await problemOf(await post(body))).toMatchObject({ status: 400, code: 'api/invalid-request' });
  });

  test('a mount outside of the folder of the spec is refused', async () => {
    const spec = `kind: workflow\nname: a\nsandbox: { mounts: [{ host: /etc, guest: /x }] }\nworkflow: { steps: [{ name: a, run: ls }] }\n`;
    expect(await problemOf(await post({ spec, baseDir: dir }))).toMatchObject({
      status: 403,
      code: 'cli/mount-refused',
    });
  });

  test('a repository that the request does not allow is refused', async () => {
    const spec = `kind: workflow\nname: a\nworkflow: { steps: [{ name: a, run: ls, workspace: { git: 'https://example.org/a/b' } }] }\n`;
    expect(await problemOf(await post({ spec, baseDir: dir }))).toMatchObject({ status: 403, code: 'cli/git-refused' });
  });

  test('an id that a run has is refused', async () => {
    const problem = await problemOf(await post({ spec: SPEC, baseDir: dir, runId: 'sales-good' }));
    expect(problem).toMatchObject({ status: 409, code: 'api/run-exists' });
    expect(problem.detail).toBe('run sales-good already exists');
  });

  test('a cancel of an unknown run is refused', async () => {
    expect(await problemOf(await post('', {}, 'runs/none/cancel'))).toMatchObject({ status: 404, code: 'api/no-run' });
  });

  test('a bug is logged, and its answer shows nothing of it', async () => {
    const api = apiOf({ stores: () => Promise.reject(new TypeError('secret of the process')) });
    const problem = await problemOf(await api.request('/api/v1/runs'));
    expect(problem).toMatchObject({ status: 500, code: 'api/bug' });
    expect(JSON.stringify(problem)).not.toContain('secret');
    expect(logged.join('\n')).toContain('secret of the process');
  });
});

describe('answers about the API', () => {
  test('health and version answer without a store', async () => {
    const api = apiOf({ stores: () => Promise.reject(new Error('no store')) });
    expect(await (await api.request('/api/v1/health')).json()).toEqual({ status: 'ok' });
    expect(await (await api.request('/api/v1/version')).json()).toEqual({ version: '1.2.3', api: 'v1' });
  });

  test('no answer is stored or sniffed', async () => {
    for (const path of ['/api/v1/health', '/api/v1/runs/none', '/none', '/api/v1/runs/sales-good/events']) {
      const { headers, body } = await get(path);
      expect(headers.get('cache-control')).toBe('no-store');
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      await body?.cancel();
    }
  });

  test('the OpenAPI document has every route that answers', async () => {
    const document = (await (await get('/openapi.json')).json()) as {
      readonly openapi: string;
      readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
    };
    expect(document.openapi).toBe('3.1.0');
    const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    // The routes of Void-Box have a contract of their own, and approval links open a page for a browser.
    const answering = [...listRouteAccess().keys()]
      .filter((route) => !/ \/(?:v1|approvals)\//.test(route))
      .map((route) => route.replaceAll(/:(\w+)/g, '{$1}'));
    expect(routes.toSorted()).toEqual(answering.filter((route) => route !== 'GET /openapi.json').toSorted());
    expect(routes).toContain('POST /api/v1/runs/{runId}/cancel');
  });
});
