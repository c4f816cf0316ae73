import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { createToken, type TokenRequest } from '../app/access/tokens.ts';
import type { Machine } from '../app/machine.ts';
import { openUploads } from '../store/open-uploads.ts';
import { createMemoryAccess } from '../test/rig/access/memory-access.ts';
import { OWNER } from '../test/rig/access/owner.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { createMemorySessions } from '../test/rig/skills/memory-session-control.ts';
import { createApi } from './api.ts';
import { API_LIMITS, MOST_SESSION_WAITS, MOST_SESSIONS } from './limits.ts';
import { ProblemSchema } from './schemas.ts';
import { createSessionWaits } from './session-waits.ts';

const START = { skill: 'greeter', session: 'first', params: { place: 'Ulm' } };

function openRig(ids: readonly string[] = []) {
  const sessions = createMemorySessions(ids);
  const machines: Machine[] = [];
  const access = createMemoryAccess();
  const logged: string[] = [];
  const api = createApi({
    machine: createTestMachine(openMemoryStores(new MemoryPlace())),
    uploads: openUploads({ stateDir: '/nowhere/state' }),
    access: () => Promise.resolve(access),
    openSessions: (machine) => {
      machines.push(machine);
      return Promise.resolve(sessions);
    },
    version: '1.2.3',
    limits: API_LIMITS,
    log: (line) => logged.push(line),
  });
  const send = async (method: string, path: string, body?: unknown, token?: string): Promise<Response> =>
    await api.request(
      `/api/v1/${path}`,
      {
        method,
        headers: {
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      },
      token === undefined ? OWNER : { connection: { listener: 'tcp', address: '192.0.2.7', end: () => undefined } },
    );
  const createTokenOf = async (change: Partial<TokenRequest>): Promise<string> => {
    const request = {
      name: 'ci',
      scopes: ['run'],
      runs: [],
      groups: [],
      allowGit: [],
      lifeMs: 60_000,
      ...change,
    } as const;
    return (await createToken(request, { tokens: access.tokens, nowMs: Date.now() })).text;
  };
  return { sessions, machines, access, logged, send, createTokenOf };
}

async function codeOf(response: Response): Promise<string> {
  const problem = ProblemSchema.parse(await response.json());
  expect(problem.status).toBe(response.status);
  return problem.code;
}

describe('a session', () => {
  test('is started, answered, read and cancelled', async () => {
    const { send } = openRig();
    const started = await send('POST', 'sessions', START);
    expect([started.status, started.headers.get('location')]).toEqual([201, '/api/v1/sessions/first']);
    expect(await started.json()).toMatchObject({ session: 'first', result: { kind: 'prompt', turn: 1 } });
    expect(await codeOf(await send('POST', 'sessions', START))).toBe('api/session-exists');
    const next = await send('POST', 'sessions/first/advance', { step: 'ask', turn: 1, output: 'x' });
    expect(await next.json()).toMatchObject({ session: 'first', result: { turn: 2 } });
    expect(await (await send('GET', 'sessions/first/result')).json()).toMatchObject({ result: { turn: 2 } });
    expect(await (await send('GET', 'sessions/first')).json()).toMatchObject({
      session: 'first',
      startedAt: '1970-01-01T00:00:01.000Z',
      open: [{ human: { dueAt: '1970-01-01T00:01:00.000Z' } }],
      uiUrl: null,
    });
    const history = await send('GET', 'sessions/first/history');
    expect(history.headers.get('content-type')).toBe('application/jsonl');
    expect(JSON.parse(await history.text())).toMatchObject({ step: 'ask', turn: 1 });
    const ended = await send('POST', 'sessions/first/cancel');
    expect(await ended.json()).toEqual({ session: 'first', wasOpen: true, hasEnded: true });
  });

  test.each([
    ['GET', 'sessions/none'],
    ['GET', 'sessions/none/result'],
    ['GET', 'sessions/none/history'],
    ['POST', 'sessions/none/cancel'],
  ])('%s %s names no session', async (method, path) => {
    const response = await openRig().send(method, path);
    expect(response.status).toBe(404);
    expect(await codeOf(response)).toBe('api/no-session');
  });

  test('gets variables of its request, and none of the service', async () => {
    const { send, machines, logged } = openRig();
    await send('POST', 'sessions', { ...START, variables: { KEY: 'secret' } });
    expect(machines.map(({ env }) => env.variables)).toEqual([{ KEY: 'secret' }]);
    expect(logged.join()).not.toContain('secret');
  });

  test('that works longer than the wait has no result yet, and its work is begun once', async () => {
    const { send, sessions, machines } = openRig(['first']);
    let finish = (): void => undefined;
    sessions.work = new Promise<void>((resolve) => (finish = resolve));
    const advance = async (wait: number) =>
      await send('POST', `sessions/first/advance?wait=${wait}`, { step: 'ask', turn: 1, output: 'x' });
    const early = await advance(0);
    expect([early.status, await early.json()]).toEqual([202, { session: 'first', result: null }]);
    const joined = advance(60);
    // Each request opens the sessions right before it joins the work.
    await expect.poll(() => machines).toHaveLength(2);
    finish();
    expect(await (await joined).json()).toMatchObject({ result: { turn: 2 } });
    expect(sessions.answers).toHaveLength(1);
  });
});

test('a start that is repeated while it works is made once, and another one with its id is refused', async () => {
  const { send, sessions } = openRig();
  let finish = (): void => undefined;
  sessions.work = new Promise<void>((resolve) => (finish = resolve));
  for (let time = 0; time < 2; time += 1) expect((await send('POST', 'sessions?wait=0', START)).status).toBe(202);
  expect(sessions.starts).toHaveLength(1);
  const other = await send('POST', 'sessions', { ...START, params: { place: 'Bonn' } });
  expect(await codeOf(other)).toBe('api/session-exists');
  finish();
});

describe('lists', () => {
  test('have the form of the command line, and tell whether there are more', async () => {
    const { send } = openRig(['a', 'b']);
    const one = { session: 'a', skill: 'greeter', state: 'open', startedAt: '1970-01-01T00:00:01.000Z', endedAt: null };
    expect(await (await send('GET', 'sessions?limit=1')).json()).toEqual({ sessions: [one], hasMore: true });
    const waiting = [{ step: 'ask', turn: 1, assignee: 'ada', dueAt: '1970-01-01T00:01:00.000Z' }];
    expect(await (await send('GET', 'sessions?waiting=true&limit=1')).json()).toEqual({
      sessions: [{ ...one, waiting }],
      unasked: [{ session: 'silent', reason: 'no worker' }],
      hasMore: true,
    });
  });

  test('have at most 1,000 sessions', async () => {
    const { send } = openRig(Array.from({ length: MOST_SESSIONS + 1 }, (_, at) => `s${at}`));
    const { sessions } = (await (await send('GET', `sessions?limit=${MOST_SESSIONS}`)).json()) as {
      readonly sessions: readonly unknown[];
    };
    expect(sessions).toHaveLength(1_000);
    for (const query of [`limit=${MOST_SESSIONS + 1}`, 'limit=0', 'state=none', 'waiting=true&state=done'])
      expect(await codeOf(await send('GET', `sessions?${query}`))).toBe('api/invalid-request');
  });
});

describe('a token', () => {
  test('starts a session only with the scope `admin`', async () => {
    const { send, sessions, createTokenOf } = openRig();
    const run = await createTokenOf({ scopes: ['run', 'approve'] });
    expect(await codeOf(await send('POST', 'sessions', START, run))).toBe('api/not-allowed');
    expect(sessions.starts).toEqual([]);
    const admin = await createTokenOf({ name: 'admin', scopes: ['admin'] });
    expect((await send('POST', 'sessions', START, admin)).status).toBe(201);
  });

  test('uses only sessions whose id its patterns match, and called sessions with their caller', async () => {
    const { send, createTokenOf } = openRig(['ci-1', 'ci-1~2', 'other', 'other~ci-1']);
    const token = await createTokenOf({ scopes: ['admin'], runs: ['ci-1'] });
    const { sessions } = (await (await send('GET', 'sessions', undefined, token)).json()) as {
      readonly sessions: readonly { readonly session: string }[];
    };
    expect(sessions.map(({ session }) => session)).toEqual(['ci-1', 'ci-1~2']);
    expect((await send('GET', 'sessions/ci-1~2', undefined, token)).status).toBe(200);
    for (const [method, path] of [
      ['GET', 'sessions/other'],
      ['GET', 'sessions/none'],
      ['GET', 'sessions/other~ci-1/history'],
      ['GET', 'sessions/other/result'],
      ['POST', 'sessions/other/advance'],
      ['POST', 'sessions/other/cancel'],
    ] as const)
      expect(await codeOf(await send(method, path, undefined, token))).toBe('api/not-allowed');
    expect(await codeOf(await send('POST', 'sessions', START, token))).toBe('api/not-allowed');
  });

  test('leaves a row with the session for each change, and no value', async () => {
    const { send, access, createTokenOf } = openRig();
    const token = await createTokenOf({ scopes: ['admin'] });
    await send('POST', 'sessions', { ...START, variables: { KEY: 'secret' } }, token);
    await send('POST', 'sessions/first/advance', { step: 'ask', turn: 1, output: 'secret' }, token);
    await send('GET', 'sessions/first', undefined, token);
    await send('POST', 'sessions/first/cancel', undefined, token);
    const rows = await access.audit.list({ limit: 10 });
    expect(rows.map(({ route, runId, status }) => [route, runId, status])).toEqual([
      ['/api/v1/sessions/:session/cancel', 'first', 200],
      ['/api/v1/sessions/:session/advance', 'first', 200],
      ['/api/v1/sessions', 'first', 201],
    ]);
    expect(JSON.stringify(rows)).not.toContain('secret');
  });
});

describe('requests that are refused', () => {
  test.each([
    ['an id that is a path', { ...START, session: '../first' }],
    ['an id of 129 characters', { ...START, session: 'x'.repeat(129) }],
    ['no id', { skill: 'greeter' }],
    ['a further key', { ...START, handshake: {} }],
    ['a name of 257 characters', { ...START, skill: 'x'.repeat(257) }],
    ['a code that is no hash', { ...START, codeHash: 'latest' }],
    ['variables of 64 KiB and a byte', { ...START, variables: { a: 'x'.repeat(65_536) } }],
    ['a number that no double holds', `{"skill":"greeter","session":"first","params":{"id":12345678901234567890}}`],
  ])('a start with %s', async (_what, body) => {
    const { send, sessions } = openRig();
    expect(await codeOf(await send('POST', 'sessions', body))).toBe('api/invalid-request');
    expect(sessions.starts).toEqual([]);
  });

  test.each([
    ['a turn that is no number', { step: 'ask', turn: '1', output: 1 }],
    ['a step of 1,001 characters', { step: 'x'.repeat(1_001), turn: 1, output: 1 }],
    ['a number that no double holds', '{"step":"ask","turn":1,"output":12345678901234567890}'],
  ])('an answer with %s', async (_what, body) => {
    const { send, sessions } = openRig(['first']);
    expect(await codeOf(await send('POST', 'sessions/first/advance', body))).toBe('api/invalid-request');
    expect(sessions.answers).toEqual([]);
  });

  test('a wait of 61 s', async () => {
    expect(await codeOf(await openRig(['first']).send('GET', 'sessions/first/result?wait=61'))).toBe(
      'api/invalid-request',
    );
  });
});

describe('waits', () => {
  const NOW = { waitMs: 0, signal: new AbortController().signal };
  const never = async (): Promise<never> => await new Promise(() => undefined);

  test('are at most 500; a further request is refused, and one for open work is not', async () => {
    const waits = createSessionWaits(MOST_SESSION_WAITS);
    for (let at = 0; at < MOST_SESSION_WAITS; at += 1) expect(await waits.join(`w${at}`, never, NOW)).toBeNull();
    await expect(waits.join('more', never, NOW)).rejects.toThrow('500 answers');
    expect(await waits.join('w0', never, NOW)).toBeNull();
  });

  test('end with the request, and a failure between two requests does not stay', async () => {
    const waits = createSessionWaits(1);
    const gone = new AbortController();
    let fail: (error: Error) => void = () => undefined;
    const work = async (): Promise<never> => await new Promise((_resolve, reject) => (fail = reject));
    const waiting = waits.join('w', work, { waitMs: 60_000, signal: gone.signal });
    gone.abort();
    expect(await waiting).toBeNull();
    fail(new Error('late'));
    await nextTurn();
    expect(await waits.join('w', () => Promise.resolve(1), { waitMs: 60_000, signal: NOW.signal })).toEqual({
      value: 1,
    });
  });
});
