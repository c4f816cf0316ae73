/** Webhooks that accept events of CloudEvents 1.0, on the whole API. */
import { createHmac } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { BATCHED_TYPE, STRUCTURED_TYPE } from '../app/cloud-events/media-types.ts';
import type { WebhookVerify } from '../domain/delivery/trigger.ts';
import type { AccessStore } from '../store/access.ts';
import { openUploads } from '../store/open-uploads.ts';
import type { DeliveryRow } from '../store/triggers.ts';
import { makeVersion, WEBHOOK } from '../test/conformance/deployments.ts';
import { createMemoryAccess } from '../test/rig/access/memory-access.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { type Api, createApi } from './api.ts';
import { API_LIMITS } from './limits.ts';

const TRACE = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
const EVENT = { specversion: '1.0', id: 'e-1', source: '/orders', type: 'order.paid', traceparent: TRACE };
const SECRET = 'a secret of 32 bytes or more, yes';

let access: AccessStore;
let api: Api;
let wakes: number;

beforeEach(async () => {
  access = createMemoryAccess();
  wakes = 0;
  api = createApi({
    machine: createTestMachine(openMemoryStores(new MemoryPlace())),
    uploads: openUploads({ stateDir: '/nowhere/state' }),
    access: () => Promise.resolve(access),
    version: '1.2.3',
    limits: API_LIMITS,
    log: () => undefined,
    hooks: { readSecrets: () => Promise.resolve([SECRET]), wake: () => (wakes += 1) },
  });
  const hook = (name: string, verify: WebhookVerify, format: 'cloudevents' | 'payload') =>
    ({ ...WEBHOOK, name, source: { kind: 'webhook', verify, format, respond: null } }) as const;
  const triggers = [
    hook('open', { scheme: 'none' }, 'cloudevents'),
    hook('signed', { scheme: 'github', secret: 'HOOK' }, 'cloudevents'),
    hook('plain', { scheme: 'none' }, 'payload'),
  ];
  await access.triggers.deployments.deploy(makeVersion('orders', { triggers }), { isPaused: false });
});

async function send(
  body: string,
  contentType: string | null,
  { name = 'open', method = 'POST', headers = {} as Readonly<Record<string, string>> } = {},
): Promise<Response> {
  return await api.request(`/hooks/orders/${name}`, {
    method,
    headers: { ...(contentType === null ? {} : { 'content-type': contentType }), ...headers },
    ...(method === 'POST' ? { body: Buffer.from(body) } : {}),
  });
}

async function listRows(): Promise<readonly DeliveryRow[]> {
  return (await access.triggers.deliveries.list({ limit: 999 })).toReversed();
}

async function bodyOf({ id }: DeliveryRow): Promise<string> {
  return Buffer.from((await access.triggers.deliveries.readBody(id))!).toString();
}

describe('an event of CloudEvents', () => {
  test('is a delivery with its data, its attributes, its ids and its trace', async () => {
    const body = JSON.stringify({ ...EVENT, retries: 3, data: { total: 5 } });
    const response = await send(body, `${STRUCTURED_TYPE}; charset=UTF-8`, {
      headers: { 'ce-type': 'forged', 'user-agent': 'shop' },
    });
    expect(response.status).toBe(202);
    const [row] = await listRows();
    expect(await response.json()).toEqual({ delivery: row!.id });
    expect(row).toMatchObject({
      trigger: 'open',
      senderId: '["/orders","e-1"]',
      cloudEvent: { source: '/orders', id: 'e-1' },
      traceparent: TRACE,
      contentType: 'application/json',
    });
    expect(row!.headers).toEqual({
      'ce-specversion': '1.0',
      'ce-id': 'e-1',
      'ce-source': '/orders',
      'ce-type': 'order.paid',
      'ce-traceparent': TRACE,
      'ce-retries': '3',
      'content-type': 'application/json',
      'user-agent': 'shop',
    });
    expect(await bodyOf(row!)).toBe('{"total":5}');
    expect(wakes).toBe(1);
  });

  test('is read from headers in the binary form', async () => {
    const headers = { 'ce-specversion': '1.0', 'ce-id': 'e-2', 'ce-source': '/orders', 'ce-type': 'a' };
    expect((await send('<a/>', 'application/xml', { headers: { ...headers, traceparent: TRACE } })).status).toBe(202);
    const [row] = await listRows();
    expect(row).toMatchObject({ contentType: 'application/xml', traceparent: TRACE, senderId: '["/orders","e-2"]' });
    expect(row!.headers).toMatchObject({ ...headers, 'content-type': 'application/xml' });
    expect((await send('', null, { headers: { ...headers, 'ce-id': 'e-3' } })).status).toBe(202);
    expect((await listRows())[1]).toMatchObject({ bodyBytes: 0, contentType: 'text/plain' });
  });

  test('is one delivery of each event in a batch', async () => {
    const batch = [1, 2, 3].map((n) => ({ ...EVENT, id: `e-${n}`, data: n }));
    const response = await send(JSON.stringify(batch), BATCHED_TYPE);
    const rows = await listRows();
    expect([response.status, await response.json()]).toEqual([202, { deliveries: rows.map(({ id }) => id) }]);
    expect(await Promise.all(rows.map(bodyOf))).toEqual(['1', '2', '3']);
    const empty = await send('[]', BATCHED_TYPE);
    expect([empty.status, await empty.json()]).toEqual([202, { deliveries: [] }]);
  });

  test('is accepted only with its proof, and is checked after that', async () => {
    const signed = (body: string) => ({
      name: 'signed',
      headers: { 'x-hub-signature-256': `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}` },
    });
    const body = JSON.stringify(EVENT);
    expect((await send(body, STRUCTURED_TYPE, signed(body))).status).toBe(202);
    expect((await send('{', STRUCTURED_TYPE, { name: 'signed' })).status).toBe(401);
    expect((await send('{', STRUCTURED_TYPE, signed('{'))).status).toBe(400);
  });

  test('is refused whole if it or one event of its batch is wrong', async () => {
    const wrong = [
      [JSON.stringify([EVENT, { ...EVENT, type: '' }]), BATCHED_TYPE, 400],
      [JSON.stringify(Array.from({ length: 101 }, () => EVENT)), BATCHED_TYPE, 413],
      ['{}', 'application/json', 415],
      ['{}', 'nonsense', 415],
      ['{}', null, 415],
    ] as const;
    for (const [body, type, status] of wrong) expect((await send(body, type)).status).toBe(status);
    expect(await listRows()).toEqual([]);
  });
});

describe('the question of a sender', () => {
  const ask = async (headers: Readonly<Record<string, string>>, name = 'open') =>
    await send('', null, { name, method: 'OPTIONS', headers });

  test('is answered with its name and a rate', async () => {
    const response = await ask({ 'webhook-request-origin': 'shop.example', 'webhook-request-rate': '9999' });
    expect(response.status).toBe(200);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      allow: 'POST, OPTIONS',
      'webhook-allowed-origin': 'shop.example',
      'webhook-allowed-rate': String(API_LIMITS.unprovenPerSecond * 60),
    });
    expect(
      Object.keys(Object.fromEntries(response.headers)).filter((name) => name.startsWith('access-control')),
    ).toEqual([]);
  });

  test('is refused if it is wrong, or the webhook accepts no CloudEvents', async () => {
    expect((await ask({ 'webhook-request-origin': '*' })).status).toBe(400);
    expect((await ask({})).status).toBe(405);
    expect((await ask({ 'webhook-request-origin': 'shop.example' }, 'plain')).status).toBe(405);
    expect((await ask({ 'webhook-request-origin': 'shop.example' }, 'none')).status).toBe(404);
  });
});
