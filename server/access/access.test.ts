/** Every route against every kind of caller, on the whole API. */
import { beforeEach, describe, expect, test } from 'vitest';
import type { Machine } from '../../app/machine.ts';
import { createAccessOpener, type OpenAccess } from '../../app/access/access-opener.ts';
import { createToken, revokeToken, type TokenRequest } from '../../app/access/tokens.ts';
import { openUploads } from '../../store/open-uploads.ts';
import { SCOPES, type Scope } from '../../domain/access/scopes.ts';
import type { AccessStore } from '../../store/access.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { openAsOwner } from '../../test/rig/access/owner.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import { type Api, createApi } from '../api.ts';
import { API_LIMITS } from '../limits.ts';
import { ProblemSchema } from '../schemas.ts';
import { listRouteAccess } from './route-scopes.ts';

const REQUEST: TokenRequest = { name: 'ci', scopes: ['read'], runs: [], groups: [], allowGit: [], lifeMs: 60_000 };
/** More than the tests of one API send, so that only one test reaches the limit. */
const UNLIMITED = 100_000;

let access: AccessStore;
let api: Api;
let nowMs = 0;
let logged: string[] = [];

function openApi(
  requestsPerSecond = UNLIMITED,
  open: OpenAccess = () => Promise.resolve(access),
  stores = openMemoryStores(new MemoryPlace()),
): Api {
  const machine: Machine = createTestMachine(stores, { now: () => new Date(nowMs) });
  return createApi({
    machine,
    uploads: openUploads({ stateDir: '/nowhere/state' }),
    access: open,
    version: '1.2.3',
    limits: { ...API_LIMITS, requestsPerSecond },
    log: (line) => logged.push(line),
  });
}

beforeEach(() => {
  access = createMemoryAccess();
  api = openApi();
  nowMs = 1_000_000;
  logged = [];
});

async function create(change: Partial<TokenRequest> = {}): Promise<string> {
  return (await createToken({ ...REQUEST, ...change }, { tokens: access.tokens, nowMs })).text;
}

interface Sent {
  readonly isFromProxy?: boolean;
  readonly method?: string;
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly to?: Api;
}

async function send(
  path: string,
  { method = 'GET', token, headers = {}, body, to = api, isFromProxy = false }: Sent = {},
) {
  return await to.request(
    path,
    {
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    },
    { connection: { listener: 'tcp', address: '192.0.2.7', end: () => undefined, isFromProxy } },
  );
}

/** An answer of Void-Box's API has other codes. */
async function codeOf(response: Response): Promise<string | null> {
  if (response.headers.get('content-type') === 'application/json') {
    const { code } = (await response.json()) as { readonly code?: string };
    return code !== 'UNAUTHORIZED' ? null : response.status === 401 ? 'api/no-token' : 'api/not-allowed';
  }
  if (response.headers.get('content-type') !== 'application/problem+json') return null;
  return ProblemSchema.parse(await response.json()).code;
}

const ROUTES = [...listRouteAccess()].map(([route, wanted]) => {
  const [method, pattern] = route.split(' ') as [string, string];
  return { route, method, path: pattern.replace(':runId', 'some-run').replaceAll(/:\w+/g, 'some'), wanted };
});
const TOKEN_ROUTES = ROUTES.filter(({ wanted }) => wanted !== 'public');
const INCLUDED: Readonly<Record<Scope, readonly Scope[]>> = {
  read: ['read'],
  run: ['read', 'run'],
  approve: ['read', 'approve'],
  admin: SCOPES,
};

describe('routes', () => {
  test('each route has a scope, and each scope belongs to a route', () => {
    const routes = api.routes.filter(({ method }) => method !== 'ALL').map(({ method, path }) => `${method} ${path}`);
    expect([...new Set(routes)].toSorted()).toEqual(ROUTES.map(({ route }) => route).toSorted());
  });

  test.each(SCOPES.flatMap((scope) => TOKEN_ROUTES.map((each) => ({ ...each, scope }))))(
    'a token with the scope $scope requests $route',
    async ({ method, path, wanted, scope }) => {
      const token = await create({ scopes: [scope] });
      const response = await send(path, { method, token });
      const isAllowed = INCLUDED[scope].includes(wanted as Scope);
      expect((await codeOf(response)) !== 'api/not-allowed').toBe(isAllowed);
      expect(response.status === 403).toBe(!isAllowed);
      expect(response.status).not.toBe(401);
    },
  );

  test.each(TOKEN_ROUTES)('a request without a token gets no answer from $route', async ({ method, path }) => {
    const response = await send(path, { method });
    expect(response.status).toBe(401);
    expect(response.headers.get('www-authenticate')).toBe('Bearer realm="voidbox"');
    expect(await codeOf(response)).toBe('api/no-token');
  });

  test.each(ROUTES.filter(({ wanted }) => wanted === 'public'))(
    'a request needs no token for $route',
    async ({ method, path }) => {
      // No deployment has the name of the path, and no key signed its link.
      const expected = /^\/(?:hooks|approvals)\//.test(path) ? 404 : 200;
      expect((await send(path, { method, headers: { 'content-type': 'application/json' } })).status).toBe(expected);
    },
  );

  test.each(ROUTES.filter(({ path }) => path.includes('some-run')))(
    'a token for other runs gets no answer from $route',
    async ({ method, path }) => {
      const token = await create({ scopes: ['admin'], runs: ['other-*'] });
      const response = await send(path, { method, token });
      expect([response.status, await codeOf(response)]).toEqual([403, 'api/not-allowed']);
    },
  );

  test('HEAD of a blob needs the scope of GET', async () => {
    const head = async (more: Sent) =>
      (await send(`/api/v1/blobs/${'a'.repeat(64)}`, { method: 'HEAD', ...more })).status;
    const runner = await create({ name: 'runner', scopes: ['run'] });
    expect([await head({}), await head({ token: await create() }), await head({ token: runner })]).toEqual([
      401, 403, 404,
    ]);
  });

  test('a route that does not exist asks for a token first', async () => {
    expect((await send('/api/v1/nothing')).status).toBe(401);
    expect(await codeOf(await send('/api/v1/nothing', { token: await create() }))).toBe('api/no-route');
  });

  test('a route without a scope accepts no token, also if it matches every path', async () => {
    const token = await create({ scopes: ['admin'] });
    const asked: string[] = [];
    for (const pattern of ['/api/v1/new', '/*']) {
      const changed = openApi();
      changed.all(pattern, ({ text }) => (asked.push(pattern), text('an answer')));
      const response = await send('/api/v1/new', { method: 'POST', token, to: changed });
      expect([403, 404]).toContain(response.status);
    }
    expect(asked).toEqual([]);
  });

  test('a change of a run whose id is not percent-encoded leaves a row without a run', async () => {
    const token = await create({ scopes: ['run'] });
    const response = await send('/api/v1/runs/%ff/cancel', { method: 'POST', token });
    expect(await codeOf(response)).toBe('api/invalid-request');
    expect(await access.audit.list({ limit: 1 })).toMatchObject([{ runId: null, code: 'api/invalid-request' }]);
  });

  test('a percent-encoded id is the same run for the check and for the route', async () => {
    const token = await create({ runs: ['other-*'] });
    expect((await send('/api/v1/runs/some%2Drun', { token })).status).toBe(403);
    expect((await send('/api/v1/runs/%6Fther-1', { token })).status).toBe(404);
  });
});

describe('tokens that are not valid', () => {
  test('a revoked token is refused at the next request', async () => {
    const token = await create();
    expect((await send('/api/v1/version', { token })).status).toBe(200);
    await revokeToken('ci', { tokens: access.tokens, nowMs });
    expect(await codeOf(await send('/api/v1/version', { token }))).toBe('api/no-token');
  });

  test('an expired token is refused', async () => {
    const token = await create();
    nowMs += 60_000;
    expect(await codeOf(await send('/api/v1/version', { token }))).toBe('api/no-token');
  });

  test('a token in the URL is no token', async () => {
    const token = await create();
    expect((await send(`/api/v1/version?token=${token}&access_token=${token}`)).status).toBe(401);
  });

  test('a database that does not answer is a problem of the service, and no permission', async () => {
    const broken = openApi(UNLIMITED, () => Promise.reject(Object.assign(new Error('gone'), { code: 'ENOSPC' })));
    const response = await send('/api/v1/version', { token: `voidbox_${'a'.repeat(43)}`, to: broken });
    expect([response.status, await codeOf(response)]).toEqual([503, 'host/disk-full']);
  });

  test('a token that no machine knows opens no database, and only the owner may make one', async () => {
    const uses: string[] = [];
    const opener = createAccessOpener({
      openStore: (use) => Promise.resolve((uses.push(use), access)),
      hasDatabase: () => uses.length > 0,
    });
    const empty = openApi(UNLIMITED, opener.open);
    const text = `voidbox_${'a'.repeat(43)}`;
    for (const { method, path } of TOKEN_ROUTES)
      expect(await codeOf(await send(path, { method, token: text, to: empty }))).toBe('api/no-token');
    const owner = openAsOwner(empty);
    expect(await (await owner.request('/api/v1/tokens')).json()).toEqual({ tokens: [], next: null });
    expect(await (await owner.request('/api/v1/audit')).json()).toEqual({ rows: [], next: null });
    expect((await owner.request('/api/v1/tokens/ci/revoke', { method: 'POST' })).status).toBe(404);
    expect(uses).toEqual([]);
    const body = JSON.stringify({ name: 'ci', scopes: ['admin'] });
    const headers = { 'content-type': 'application/json' };
    const made = await owner.request('/api/v1/tokens', { method: 'POST', headers, body });
    expect(made.status).toBe(201);
    expect(uses).toEqual(['make']);
  });

  test('an administrator of the network creates tokens, but makes no database', async () => {
    const uses: string[] = [];
    const token = await create({ name: 'admin', scopes: ['admin'] });
    const watched = openApi(UNLIMITED, (use) => Promise.resolve((uses.push(use), access)));
    const body = { name: 'new', scopes: ['run'] };
    expect((await send('/api/v1/tokens', { method: 'POST', token, body, to: watched })).status).toBe(201);
    expect(new Set(uses)).toEqual(new Set(['find']));
  });

  test('a connection without a record is one of the network', async () => {
    expect((await api.request('/api/v1/version')).status).toBe(401);
  });
});

describe('limits', () => {
  test('a token may send its requests of a second, and must then wait', async () => {
    const limited = openApi(50);
    const [token, other] = [await create(), await create({ name: 'other' })];
    for (let sent = 0; sent < 50; sent += 1)
      expect((await send('/api/v1/version', { token, to: limited })).status).toBe(200);
    const refused = await send('/api/v1/version', { token, to: limited });
    expect([refused.status, refused.headers.get('retry-after'), await codeOf(refused)]).toEqual([
      429,
      '1',
      'api/too-many-requests',
    ]);
    expect((await send('/api/v1/version', { token: other, to: limited })).status).toBe(200);
    nowMs += 1_000;
    expect((await send('/api/v1/version', { token, to: limited })).status).toBe(200);
  });

  test('an address that guesses tokens must wait, and a valid token on it need not', async () => {
    const limited = openApi(50);
    const token = await create();
    for (let sent = 0; sent < 50; sent += 1) await send('/api/v1/version', { to: limited });
    expect((await send('/api/v1/version', { to: limited })).status).toBe(429);
    expect((await send('/api/v1/version', { token, to: limited })).status).toBe(200);
  });

  test('the last use of a token is written once a minute', async () => {
    const token = await create();
    const lastUse = async () => (await access.tokens.list())[0]?.lastUsedAtMs;
    await send('/api/v1/version', { token });
    const first = await lastUse();
    nowMs += 30_000;
    await send('/api/v1/version', { token });
    expect([first, await lastUse()]).toEqual([1_000_000, 1_000_000]);
  });
});

describe('routes of tokens', () => {
  test('a token that is created through the API works, and its text is in no later answer', async () => {
    const admin = await create({ name: 'admin', scopes: ['admin'] });
    const body = { name: 'new', scopes: ['run'], runs: ['a-*'], groups: ['ops'], allowGit: ['github.com/acme/app'] };
    const response = await send('/api/v1/tokens', { method: 'POST', token: admin, body });
    expect(response.status).toBe(201);
    const created = (await response.json()) as { readonly text: string; readonly expiresAtMs: number };
    expect(created).toMatchObject(body);
    expect(created.expiresAtMs - nowMs).toBe(90 * 24 * 60 * 60_000);
    expect((await send('/api/v1/version', { token: created.text })).status).toBe(200);
    const list = await (await send('/api/v1/tokens', { token: admin })).text();
    expect(list).toContain('"name":"new"');
    expect(list).not.toContain(created.text.slice(8));
    expect(list).not.toContain('hash');
  });

  test('tokens are listed in pages, by name', async () => {
    const token = await create({ name: 'admin', scopes: ['admin'] });
    for (const name of ['c', 'a', 'b']) await create({ name });
    const read = async (query: string) => {
      const response = await send(`/api/v1/tokens?${query}`, { token });
      return (await response.json()) as { readonly tokens: readonly { readonly name: string }[]; next: string };
    };
    const first = await read('limit=3');
    expect(first.tokens.map(({ name }) => name)).toEqual(['a', 'admin', 'b']);
    expect(await read(`limit=3&cursor=${first.next}`)).toMatchObject({ tokens: [{ name: 'c' }], next: null });
    expect(await read('')).toMatchObject({ tokens: { length: 4 }, next: null });
    for (const query of [
      'limit=201',
      'limit=0',
      'cursor=x',
      'limit=x',
      `cursor=${Buffer.from('[1]').toString('base64url')}`,
    ])
      expect(await codeOf(await send(`/api/v1/tokens?${query}`, { token })), query).toBe('api/invalid-request');
  });

  test('a token is revoked through the API', async () => {
    const admin = await create({ name: 'admin', scopes: ['admin'] });
    const token = await create();
    const response = await send('/api/v1/tokens/ci/revoke', { method: 'POST', token: admin });
    expect(await response.json()).toMatchObject({ name: 'ci', revokedAtMs: nowMs });
    expect((await send('/api/v1/version', { token })).status).toBe(401);
    const missing = await send('/api/v1/tokens/nobody/revoke', { method: 'POST', token: admin });
    expect([missing.status, await codeOf(missing)]).toEqual([404, 'api/no-such-token']);
  });

  test('a body with an unknown key or scope is refused', async () => {
    const token = await create({ name: 'admin', scopes: ['admin'] });
    for (const change of [{ scope: 'run' }, { scopes: ['write'] }, { scopes: [] }, { lifeMs: 1.5 }]) {
      const body = { name: 'new', scopes: ['run'], ...change };
      expect(await codeOf(await send('/api/v1/tokens', { method: 'POST', token, body }))).toBe('api/invalid-request');
    }
  });
});

describe('the audit log', () => {
  test('a change over TCP is a row, with its outcome and no value', async () => {
    const token = await create({ scopes: ['run'] });
    const body = { spec: 'name: secret', baseDir: '/nowhere/else', variables: { KEY: 'secret' } };
    await send('/api/v1/runs', { method: 'POST', token, body });
    await send('/api/v1/runs/some-run/cancel', { method: 'POST', token });
    await send('/api/v1/tokens', { method: 'POST', token, body: { name: 'new', scopes: ['admin'] } });
    const rows = await access.audit.list({ limit: 10 });
    expect(rows.map(({ method, route, runId, code }) => [method, route, runId, code])).toEqual([
      ['POST', '/api/v1/tokens', null, 'api/not-allowed'],
      ['POST', '/api/v1/runs/:runId/cancel', 'some-run', 'api/no-run'],
      ['POST', '/api/v1/runs', null, expect.any(String)],
    ]);
    expect(rows[0]).toMatchObject({ atMs: nowMs, token: 'ci', address: '192.0.2.7', status: 403 });
    expect(JSON.stringify(rows)).not.toContain('secret');
  });

  test('behind a proxy, a row names the client of the proxy', async () => {
    const token = await create({ scopes: ['run'] });
    const request = { method: 'POST', token, headers: { 'x-forwarded-for': '203.0.113.9, 198.51.100.4' } };
    await send('/api/v1/runs/some-run/cancel', request);
    await send('/api/v1/runs/some-run/cancel', { ...request, isFromProxy: true });
    const rows = await access.audit.list({ limit: 10 });
    expect(rows.map(({ address }) => address)).toEqual(['198.51.100.4', '192.0.2.7']);
  });

  test('a change of many runs is a row for each run that was changed', async () => {
    const stores = openMemoryStores(new MemoryPlace());
    const outcome = { state: 'succeeded', output: null, failure: null, failedStage: null, tolerated: [] } as const;
    for (const runId of ['a', 'b'])
      await stores.events.append(runId, [{ id: 'e', atMs: 1, body: { type: 'run-finished', outcome } }]);
    const token = await create({ scopes: ['run'] });
    const sent = { method: 'POST', token, to: openApi(UNLIMITED, undefined, stores) };
    const cancel = async (body: unknown) => await send('/api/v1/runs/actions', { ...sent, body });
    expect((await cancel({ action: 'cancel', runs: ['a', 'none', 'b'] })).status).toBe(200);
    expect((await cancel({ action: 'cancel', runs: ['none'] })).status).toBe(200);
    const rows = await access.audit.list({ limit: 10 });
    expect(rows.map(({ runId }) => runId)).toEqual([null, 'b', 'a']);
    for (const body of [
      { action: 'cancel' },
      { action: 'cancel', filter: {} },
      { action: 'cancel', runs: ['a'], filter: { name: 'x' } },
      { action: 'cancel', runs: Array.from({ length: 1_001 }, (_, at) => `r${at}`) },
    ])
      expect(await codeOf(await cancel(body))).toBe('api/invalid-request');
  });

  test('reads, and requests without a valid token, leave no row', async () => {
    await send('/api/v1/version', { token: await create() });
    await send('/api/v1/runs', { method: 'POST', body: {} });
    expect(await access.audit.list({ limit: 10 })).toEqual([]);
  });

  test('a change is answered although its row cannot be written, and the log of the API names it', async () => {
    const token = await create({ name: 'admin', scopes: ['admin'] });
    const audit = { ...access.audit, add: () => Promise.reject(new Error('the disk is full')) };
    const broken = openApi(UNLIMITED, () => Promise.resolve({ ...access, audit }));
    const body = { name: 'new', scopes: ['run'] };
    expect((await send('/api/v1/tokens', { method: 'POST', token, body, to: broken })).status).toBe(201);
    expect(logged).toEqual([
      'the audit log lacks POST /api/v1/tokens of the token admin from 192.0.2.7: the disk is full',
    ]);
  });

  test('the log is read in pages, the latest row first', async () => {
    const token = await create({ name: 'admin', scopes: ['admin'] });
    const entry = { atMs: 1, address: null, method: 'POST', route: '/x', status: 200, code: null };
    for (const [name, runId] of [
      ['a', 'r1'],
      ['b', 'r1'],
      ['a', 'r2'],
    ] as const)
      await access.audit.add({ ...entry, token: name, runId });
    const read = async (query: string) =>
      (await (await send(`/api/v1/audit?${query}`, { token })).json()) as {
        readonly rows: readonly { readonly id: number }[];
        readonly next: number | null;
      };
    const first = await read('limit=2');
    expect([first.rows.map(({ id }) => id), first.next]).toEqual([[3, 2], 2]);
    const second = await read(`limit=2&before=${first.next}`);
    expect([second.rows.map(({ id }) => id), second.next]).toEqual([[1], null]);
    expect((await read('token=a')).rows.map(({ id }) => id)).toEqual([3, 1]);
    expect((await read('run=r1')).rows.map(({ id }) => id)).toEqual([2, 1]);
    expect((await read('limit=1000')).rows).toHaveLength(3);
    expect(await codeOf(await send('/api/v1/audit?limit=1001', { token }))).toBe('api/invalid-request');
    expect(await codeOf(await send('/api/v1/audit?limit=0', { token }))).toBe('api/invalid-request');
  });
});

describe('lists of runs', () => {
  /** Two of three runs may be seen by the token. */
  async function listWith(query: string, path: string): Promise<unknown> {
    const stores = openMemoryStores(new MemoryPlace());
    for (const [at, runId] of ['a-1', 'secret', 'a-2'].entries())
      await stores.events.append(runId, [
        { id: 'n', atMs: at + 1, body: { type: 'notice', level: 'info', message: 'begins' } },
      ]);
    const token = await create({ name: `${path}?${query}`.replaceAll(/[^a-z0-9]/gi, '.').slice(0, 60), runs: ['a-*'] });
    const response = await send(`/api/v1/${path}?${query}`, { token, to: openApi(UNLIMITED, undefined, stores) });
    expect(response.status).toBe(200);
    const text = await response.text();
    expect(text).not.toContain('secret');
    return JSON.parse(text);
  }

  test.each(['runs', 'run-index'])('the list `%s` has only the runs that the token may see', async (path) => {
    expect(await listWith('', path)).toMatchObject({ runs: [{ runId: 'a-2' }, { runId: 'a-1' }], next: null });
    expect(await listWith('limit=1', path)).toMatchObject({ runs: [{ runId: 'a-2' }], next: expect.any(String) });
  });

  test('ids of other runs are not listed, and cannot be asked for', async () => {
    expect(await listWith('', 'run-ids')).toEqual({ ids: ['a-2', 'a-1'], next: null });
    expect(await listWith('prefix=s', 'run-ids')).toEqual({ ids: [], next: null });
    expect(await listWith('id=a-1', 'run-ids')).toEqual({ ids: ['a-1'], next: null });
    expect(await listWith('id=secre', 'run-ids')).toEqual({ ids: [], next: null });
  });

  test('ids are listed in pages, which other runs do not shorten', async () => {
    const first = (await listWith('limit=1', 'run-ids')) as { readonly next: string };
    expect(first).toEqual({ ids: ['a-2'], next: expect.any(String) });
    expect(await listWith(`limit=1&cursor=${first.next}`, 'run-ids')).toEqual({ ids: ['a-1'], next: null });
  });
});
