/** The routes of deliveries, over deliveries in memory. */
import { expect, test } from 'vitest';
import { createToken } from '../app/access/tokens.ts';
import { createDeliveryId } from '../app/deliveries/accept.ts';
import { MOST_REPLAYS } from '../app/deliveries/replay-deliveries.ts';
import type { EvaluateDelivery } from '../app/deliveries/evaluate-delivery.ts';
import type { ReadSecretValues } from '../app/deliveries/read-deliveries.ts';
import { createDecide } from '../domain/delivery/decide.ts';
import type { DeliveryKeys } from '../domain/delivery/delivery.ts';
import { openUploads } from '../store/open-uploads.ts';
import type { DeliveryRow, NewDelivery } from '../store/triggers.ts';
import { makeDelivery } from '../test/conformance/deliveries.ts';
import { makeVersion, WEBHOOK } from '../test/conformance/deployments.ts';
import { createMemoryAccess } from '../test/rig/access/memory-access.ts';
import { OWNER } from '../test/rig/access/owner.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { createApi } from './api.ts';
import { DeliveryListSchema, ReplaysSchema, ShownDeliverySchema } from './routes/delivery-schemas.ts';
import { API_LIMITS } from './limits.ts';
import { ProblemSchema } from './schemas.ts';

const NOW_MS = Date.now();
const KEYS: DeliveryKeys = { dedupe: null, debounce: null, batch: null, rate: null, order: null };

async function openRig(readSecretValues?: ReadSecretValues, evaluate?: EvaluateDelivery) {
  const access = createMemoryAccess();
  const { deliveries, deployments } = access.triggers;
  await deployments.deploy(makeVersion('review'), { isPaused: false });
  let wakes = 0;
  const hooks = { readSecrets: () => Promise.resolve([]), wake: () => void (wakes += 1) };
  const api = createApi({
    hooks,
    machine: createTestMachine(openMemoryStores(new MemoryPlace())),
    uploads: openUploads({ stateDir: '/nowhere/state' }),
    access: () => Promise.resolve(access),
    version: '1.2.3',
    limits: API_LIMITS,
    log: () => undefined,
    ...(readSecretValues === undefined ? {} : { readSecretValues }),
    ...(evaluate === undefined ? {} : { evaluate }),
  });
  const send = async (method: string, path: string, body?: object, token?: string): Promise<Response> =>
    await api.request(
      path.startsWith('/api/') ? path : `/api/v1/deliveries${path}`,
      {
        method,
        headers: {
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      },
      token === undefined ? OWNER : { connection: { listener: 'tcp', address: '192.0.2.7', end: () => undefined } },
    );
  const accept = async (change: Partial<NewDelivery> = {}): Promise<DeliveryRow> => {
    const delivery = makeDelivery({ id: createDeliveryId(NOW_MS), acceptedAtMs: NOW_MS, ...change });
    return (await deliveries.accept(delivery)).delivery;
  };
  /** Gives deliveries their outcome. */
  const filterOut = async (...rows: readonly DeliveryRow[]): Promise<void> => {
    const decide = createDecide({
      trigger: WEBHOOK,
      evaluation: { holds: false, params: {}, input: null, keys: KEYS },
    });
    await deliveries.claim({ token: 't', nowMs: NOW_MS, leaseMs: 1, limit: 999 });
    for (const { id } of rows)
      await deliveries.decide({ id, token: 't', nowMs: NOW_MS, leaseMs: 1, trigger: WEBHOOK, keys: KEYS, decide });
  };
  const createTokenFor = async (runs: readonly string[], scopes: readonly ('read' | 'run')[]): Promise<string> => {
    const request = {
      name: `t${createDeliveryId(NOW_MS)}`,
      scopes,
      runs,
      groups: [],
      allowGit: [],
      lifeMs: 60_000,
    };
    return (await createToken(request, { tokens: access.tokens, nowMs: Date.now() })).text;
  };
  return { send, accept, filterOut, deliveries, deployments, createTokenFor, countWakes: () => wakes };
}

const readList = async (response: Response) => DeliveryListSchema.parse(await response.json());
const readProblem = async (response: Response) => ProblemSchema.parse(await response.json());

test('deliveries are listed in pages, by deployment, trigger, state and time', async () => {
  const { send, accept, filterOut } = await openRig();
  const [one, two, three] = [await accept(), await accept({ trigger: 'other' }), await accept({ deployment: 'b' })];
  await filterOut(one!);
  const list = async (query: string): Promise<readonly string[]> =>
    (await readList(await send('GET', query))).deliveries.map(({ id }) => id);
  expect(await list('')).toEqual([three!.id, two!.id, one!.id]);
  expect(await list('?deployment=review&trigger=other')).toEqual([two!.id]);
  expect(await list('?state=filtered')).toEqual([one!.id]);
  expect(await list(`?since=${new Date(NOW_MS + 1).toISOString()}`)).toEqual([]);
  const { deliveries, next } = await readList(await send('GET', '?limit=2'));
  expect(deliveries).toHaveLength(2);
  expect(await list(`?limit=2&before=${next}`)).toEqual([one!.id]);
});

test.each(['?limit=0', '?limit=201', '?state=lost', '?before=x', '?since=yesterday', '?color=red'])(
  'a list with %s is refused',
  async (query) => {
    const { send } = await openRig();
    const response = await send('GET', query);
    expect([response.status, (await readProblem(response)).code]).toEqual([400, 'api/invalid-request']);
  },
);

test('a delivery is shown with the beginning of its payload, and without secrets', async () => {
  const secret = 'hunter2-hunter2';
  const { send, accept } = await openRig((deployment, names) => {
    expect([deployment, names]).toEqual(['review', ['HOOK']]);
    return Promise.resolve({ HOOK: secret });
  });
  const padding = 'x'.repeat(4_090);
  const { id } = await accept({
    body: Buffer.from(`${padding}${secret} and more`),
    headers: { 'x-token': secret, 'x-event': 'push' },
    params: { key: `a ${secret}` },
    senderId: secret,
  });
  const response = await send('GET', `/${id}`);
  const text = await response.text();
  expect(text).not.toContain('hunter2');
  const { details } = ShownDeliverySchema.parse(JSON.parse(text));
  expect(details).toMatchObject({
    senderId: '[redacted]',
    headers: { 'x-token': '[redacted]', 'x-event': 'push' },
    params: { key: 'a [redacted]' },
    payload: `${padding}[redac`,
    isCut: true,
  });
});

test('a delivery whose secrets cannot be read shows nothing of its sender', async () => {
  const { send, accept } = await openRig();
  const { id } = await accept({ body: Buffer.from('hunter2-hunter2') });
  const text = await (await send('GET', `/${id}`)).text();
  expect(ShownDeliverySchema.parse(JSON.parse(text))).toMatchObject({ id, details: null, message: null });
  expect(text).not.toContain('hunter2');
});

test('a delivery that does not exist and one of another token have the same answer', async () => {
  const { send, accept, createTokenFor } = await openRig();
  const { id } = await accept();
  const token = await createTokenFor(['web-*'], ['read']);
  const [unknown, foreign] = [createDeliveryId(NOW_MS), id];
  const problems = [
    await readProblem(await send('GET', `/${unknown}`, undefined, token)),
    await readProblem(await send('GET', `/${foreign}`, undefined, token)),
  ];
  expect(problems.map(({ status, code }) => [status, code])).toEqual([
    [404, 'api/no-delivery'],
    [404, 'api/no-delivery'],
  ]);
  expect((await readList(await send('GET', '', undefined, token))).deliveries).toEqual([]);
  expect((await readProblem(await send('GET', '/nothing'))).code).toBe('api/invalid-request');
});

test('a replay is a new delivery of the enabled version with the same payload', async () => {
  const { send, accept, filterOut, deliveries, deployments, countWakes } = await openRig();
  const body = Buffer.from([0, 255, 1]);
  const row = await accept({ body, headers: { 'x-event': 'push' }, expiresAtMs: NOW_MS + 5 });
  await filterOut(row);
  await deployments.deploy(makeVersion('review', { spec: 'two' }), { isPaused: false });
  const response = await send('POST', '/replay', { deliveries: [row.id] });
  const { replays } = ReplaysSchema.parse(await response.json());
  expect(replays).toEqual([{ delivery: row.id, replay: expect.any(String), code: null, message: null }]);
  expect(countWakes()).toBe(1);
  const replay = (await deliveries.find(replays[0]!.replay!))!;
  expect(replay).toMatchObject({ replayOf: row.id, version: 2, headers: { 'x-event': 'push' }, expiresAtMs: null });
  expect(Buffer.from((await deliveries.readBody(replay.id))!)).toEqual(body);
});

test('deliveries that cannot be replayed stop no other', async () => {
  const { send, accept, filterOut, deployments } = await openRig();
  const rows = [await accept(), await accept(), await accept({ deployment: 'gone' })];
  await filterOut(rows[0]!, rows[2]!);
  const ids = [createDeliveryId(NOW_MS), ...rows.map(({ id }) => id)];
  const replay = async () =>
    ReplaysSchema.parse(await (await send('POST', '/replay', { deliveries: ids })).json()).replays;
  expect((await replay()).map(({ code }) => code)).toEqual([
    'api/no-delivery',
    null,
    'api/delivery-open',
    'trigger/deployment-deleted',
  ]);
  await deployments.delete('review', NOW_MS);
  expect((await replay()).map(({ code }) => code)).toContain('trigger/deployment-deleted');
});

test('deliveries that match a filter are replayed in their order, but no replay and no open one', async () => {
  const { send, accept, filterOut, deliveries } = await openRig();
  const rows = [await accept(), await accept(), await accept({ trigger: 'other' })];
  const open = await accept();
  await filterOut(...rows);
  const filter = { deployment: 'review', trigger: 'push' };
  const replay = async (isDry: boolean) =>
    ReplaysSchema.parse(await (await send('POST', '/replay', { filter, isDry })).json()).replays;
  const before = await deliveries.list({ limit: 99 });
  expect((await replay(true)).map(({ delivery, replay: made }) => [delivery, made])).toEqual([
    [rows[0]!.id, null],
    [rows[1]!.id, null],
  ]);
  expect(await deliveries.list({ limit: 99 })).toHaveLength(before.length);
  const made = await replay(false);
  expect(made.map(({ delivery }) => delivery)).toEqual([rows[0]!.id, rows[1]!.id]);
  await filterOut(...(await deliveries.list({ limit: 99 })).filter(({ replayOf }) => replayOf !== null));
  expect(await replay(true)).toHaveLength(2);
  expect(made.map(({ delivery }) => delivery)).not.toContain(open.id);
});

test('a request replays 1,000 deliveries, by their ids or by a filter, and no more', async () => {
  expect(MOST_REPLAYS).toBe(1_000);
  const { send, accept, filterOut } = await openRig();
  const rows: DeliveryRow[] = [];
  while (rows.length < MOST_REPLAYS) rows.push(await accept());
  for (let page = 0; page < 2; page += 1) await filterOut(...rows);
  const ids = rows.map(({ id }) => id);
  const replay = async (request: object) =>
    ReplaysSchema.parse(await (await send('POST', '/replay', { ...request, isDry: true })).json()).replays;
  expect(await replay({ deliveries: ids })).toHaveLength(MOST_REPLAYS);
  expect(await replay({ filter: { deployment: 'review' } })).toHaveLength(MOST_REPLAYS);
  const more = await send('POST', '/replay', { deliveries: [...ids, createDeliveryId(NOW_MS)], isDry: true });
  expect([more.status, (await readProblem(more)).code]).toEqual([400, 'api/invalid-request']);
});

test('a filter that matches too many deliveries is refused, and nothing is replayed', async () => {
  const { send, accept, filterOut, deliveries } = await openRig();
  const rows: DeliveryRow[] = [];
  for (let count = 0; count < 1_001; count += 1) rows.push(await accept());
  for (let page = 0; page < 2; page += 1) await filterOut(...rows);
  const response = await send('POST', '/replay', { filter: { deployment: 'review' } });
  expect((await readProblem(response)).detail).toContain('at most 1000 deliveries');
  expect(await deliveries.list({ limit: 9_999 })).toHaveLength(1_001);
});

test.each([
  {},
  { deliveries: [] },
  { deliveries: ['x'] },
  { filter: {} },
  { filter: { deployment: 'a', state: 'x' } },
  { deliveries: [createDeliveryId(NOW_MS)], filter: { deployment: 'a' } },
])('a replay of %j is refused', async (body) => {
  const { send } = await openRig();
  expect((await readProblem(await send('POST', '/replay', body))).code).toBe('api/invalid-request');
});

test('a token with the scope read replays nothing, and one with other runs sees no delivery', async () => {
  const { send, accept, filterOut, createTokenFor } = await openRig();
  const row = await accept();
  await filterOut(row);
  const reader = await createTokenFor([], ['read']);
  expect((await send('POST', '/replay', { deliveries: [row.id] }, reader)).status).toBe(403);
  const foreign = await createTokenFor(['web-*'], ['run']);
  const answer = await send('POST', '/replay', { filter: { deployment: 'review' } }, foreign);
  expect(ReplaysSchema.parse(await answer.json()).replays).toEqual([]);
  const own = await createTokenFor(['review-*'], ['run']);
  const replayed = await send('POST', '/replay', { deliveries: [row.id] }, own);
  expect(ReplaysSchema.parse(await replayed.json()).replays[0]!.code).toBeNull();
});

test('a payload is explained with the headers that expressions may read, and nothing is stored', async () => {
  const asked: unknown[] = [];
  const { send, deliveries } = await openRig(undefined, (trigger, delivery, body) => {
    asked.push([trigger.name, delivery, Buffer.from(body).toString()]);
    return Promise.resolve({ holds: true, params: { a: 'b' }, input: null, keys: KEYS });
  });
  const path = '/api/v1/deployments/review/triggers/push/explain';
  const body = Buffer.from('{"a":1}').toString('base64');
  const headers = { 'X-GitHub-Event': 'push', 'x-hub-signature-256': 'sha256=0', cookie: 'a' };
  const response = await send('POST', path, { body, headers, contentType: 'application/json; charset=utf-8' });
  expect(await response.json()).toMatchObject({
    version: 1,
    events: [{ cloudEvent: null, evaluation: { params: { a: 'b' } }, decision: { kind: 'start' } }],
  });
  const read = { 'x-github-event': 'push', 'content-type': 'application/json; charset=utf-8' };
  const delivery = { contentType: 'application/json', senderId: null, headers: read };
  expect(asked).toEqual([['push', delivery, '{"a":1}']]);
  expect(await deliveries.list({ limit: 9 })).toEqual([]);
  expect((await readProblem(await send('POST', path, { body, contentType: 'image/png' }))).status).toBe(415);
  expect((await readProblem(await send('POST', path.replace('push', 'pull'), { body }))).status).toBe(404);
  expect((await readProblem(await send('POST', path.replace('review', 'web'), { body }))).code).toBe(
    'api/no-deployment',
  );
});
