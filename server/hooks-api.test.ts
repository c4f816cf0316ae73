/** The route of webhooks: what each request gets, and what it may cost. */
import { createHmac } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { AppError } from '../app/app-error.ts';
import { makeMetaToken } from '../app/hooks/challenge.ts';
import { isDeliveryId } from '../domain/delivery/delivery-id.ts';
import type { Trigger, WebhookSource, WebhookVerify } from '../domain/delivery/trigger.ts';
import { CodedError } from '../domain/errors/coded-error.ts';
import type { AccessStore } from '../store/access.ts';
import { openUploads } from '../store/open-uploads.ts';
import type { DeliveryRow } from '../store/triggers.ts';
import { makeVersion, WEBHOOK } from '../test/conformance/deployments.ts';
import { createMemoryAccess } from '../test/rig/access/memory-access.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { type Api, createApi } from './api.ts';
import { API_LIMITS } from './limits.ts';
import { ProblemSchema } from './schemas.ts';

const SECRET = 'a secret';
const META: WebhookVerify = {
  scheme: 'hmac',
  secret: 'META',
  header: 'x-hub-signature-256',
  prefix: 'sha256=',
  algorithm: 'sha256',
  encoding: 'hex',
  timestamp: null,
};
const SECRETS: Readonly<Record<string, readonly string[]>> = { HOOK: [SECRET, 'the secret before'], META: [SECRET] };
const MIB = 1024 * 1024;

let access: AccessStore;
let open: () => Promise<AccessStore>;
let api: Api;
let nowMs: number;
let logged: string[];
let woken: number;
let readSecrets: (name: string) => Promise<readonly string[]>;

beforeEach(async () => {
  access = createMemoryAccess();
  open = () => Promise.resolve(access);
  nowMs = 1_800_000_000_000;
  [logged, woken] = [[], 0];
  readSecrets = (name) => Promise.resolve(SECRETS[name] ?? []);
  api = createApi({
    machine: createTestMachine(openMemoryStores(new MemoryPlace()), { now: () => new Date(nowMs) }),
    uploads: openUploads({ stateDir: '/nowhere/state' }),
    access: () => open(),
    hooks: { readSecrets: (_deployment, name) => readSecrets(name), wake: () => void (woken += 1) },
    version: '1.2.3',
    limits: { ...API_LIMITS, hookBytes: 3 * MIB, hookBytesOfAddress: 2 * MIB },
    log: (line) => logged.push(line),
  });
  const triggers = [
    WEBHOOK,
    hook('open', { scheme: 'none' }),
    hook('slack', { scheme: 'slack', secret: 'HOOK' }),
    hook('meta', META),
    hook('unset', { scheme: 'github', secret: 'UNSET' }),
    { ...WEBHOOK, name: 'ordered', order: { key: 'input.a' } },
  ];
  await access.triggers.deployments.deploy(makeVersion('review', { triggers }), { isPaused: false });
});

function hook(name: string, verify: WebhookVerify, respond: WebhookSource['respond'] = null): Trigger {
  return { ...WEBHOOK, name, source: { kind: 'webhook', verify, format: 'payload', respond } };
}

interface Sent {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | ReadableStream<Uint8Array>;
  readonly address?: string | null;
}

const PATH = '/hooks/review/push';

async function send(path: string, { method = 'POST', headers = {}, body, address = '192.0.2.7' }: Sent = {}) {
  const listener = address === null ? 'unix' : 'tcp';
  const connection = { listener, address, end: () => undefined } as const;
  return await api.request(
    path,
    {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body, duplex: 'half' }),
    },
    { connection },
  );
}

function sign(body: string | Uint8Array, secret = SECRET): Readonly<Record<string, string>> {
  const signature = createHmac('sha256', secret).update(body).digest('hex');
  return { 'x-hub-signature-256': `sha256=${signature}`, 'x-github-delivery': 'd-1', 'x-github-event': 'push' };
}

async function sendSigned(body: string, sent: Sent = {}, path = PATH): Promise<Response> {
  return await send(path, { body, ...sent, headers: { ...sign(body), ...sent.headers } });
}

async function codeOf(response: Response): Promise<readonly [number, string]> {
  const problem = ProblemSchema.parse(await response.json());
  expect(problem.status).toBe(response.status);
  return [response.status, problem.code];
}

async function acceptedOf(response: Response): Promise<DeliveryRow> {
  expect(response.status).toBe(202);
  const { delivery } = (await response.json()) as { readonly delivery: string };
  return (await access.triggers.deliveries.find(delivery))!;
}

describe('an event with a right proof', () => {
  test('is a delivery with its bytes before its sender has the answer', async () => {
    const body = '{ "a":1.0,\n"b":18446744073709551615}';
    const row = await acceptedOf(
      await sendSigned(body, {
        headers: { 'content-type': 'Application/JSON; charset=UTF-8', cookie: 'x', 'ce-id': '1' },
      }),
    );
    expect(isDeliveryId(row.id)).toBe(true);
    expect(row).toMatchObject({
      deployment: 'review',
      version: 1,
      trigger: 'push',
      acceptedAtMs: nowMs,
      senderId: 'd-1',
      contentType: 'application/json',
      state: 'accepted',
      bodyBytes: body.length,
      headers: {
        'content-type': 'Application/JSON; charset=UTF-8',
        'x-github-delivery': 'd-1',
        'x-github-event': 'push',
        'ce-id': '1',
      },
      traceparent: null,
      cloudEvent: null,
      upstream: null,
    });
    expect(Buffer.from((await access.triggers.deliveries.readBody(row.id))!).toString()).toBe(body);
    expect(woken).toBe(1);
    expect(logged).toEqual([]);
  });

  test('is accepted with the secret before the rotation, from the Unix socket, and of any bytes', async () => {
    const body = Buffer.from([0xff, 0, 0x22]);
    const headers = { ...sign(body, 'the secret before'), 'content-type': 'text/plain' };
    expect((await acceptedOf(await send(PATH, { body, headers, address: null }))).bodyBytes).toBe(3);
  });

  test('is accepted by a paused deployment, which decides later', async () => {
    await access.triggers.deployments.pause('review', 'drop', nowMs);
    expect((await acceptedOf(await sendSigned('{}'))).state).toBe('accepted');
  });

  test('keeps the trace and the ids of CloudEvents', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const headers = { traceparent, 'ce-specversion': '1.0', 'ce-id': '7', 'ce-source': '/a' };
    expect(await acceptedOf(await send('/hooks/review/open', { body: '{}', headers }))).toMatchObject({
      traceparent,
      cloudEvent: { source: '/a', id: '7' },
    });
  });

  test('is as large as an event may be', async () => {
    expect((await acceptedOf(await sendSigned('x'.repeat(MIB)))).bodyBytes).toBe(MIB);
    expect(await codeOf(await sendSigned('x'.repeat(MIB + 1)))).toEqual([413, 'api/too-large']);
  });
});

describe('a refused request', () => {
  test('does not learn why its proof is wrong, and the owner does', async () => {
    const answers = [
      await send(PATH, { body: '{}' }),
      await send(PATH, { body: '{}', headers: { 'x-hub-signature-256': 'x' } }),
      await send(PATH, { body: '{}', headers: sign('{} ') }),
      await send(PATH, { body: '{}', headers: sign('{}', '') }),
      await send('/hooks/review/unset', { body: '{}', headers: sign('{}') }),
    ];
    const texts = await Promise.all(answers.map((answer) => answer.text()));
    expect(new Set(texts).size).toBe(1);
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 401, 401]);
    expect(answers[0]!.headers.get('www-authenticate')).toBe('Webhook realm="voidbox"');
    expect(JSON.parse(texts[0]!)).toMatchObject({ code: 'api/hook-unproven' });
    expect(logged).toEqual([
      'the webhook review/push refused a request: it has no signature or no time',
      'the webhook review/unset refused a request: the secret of the trigger is absent, empty or has another form',
    ]);
    nowMs += 60_000;
    await send(PATH, { body: '{}', headers: sign('{} ') });
    expect(logged).toHaveLength(3);
    expect(woken).toBe(0);
  });

  test('gets the same answer for every name that is no webhook', async () => {
    await access.triggers.deployments.deploy(makeVersion('gone'), { isPaused: false });
    await access.triggers.deployments.delete('gone', nowMs);
    const paths = [
      '/hooks/gone/push',
      '/hooks/none/push',
      '/hooks/review/none',
      '/hooks/review/Push',
      '/hooks/__proto__/push',
    ];
    const answers = await Promise.all(paths.map((path) => sendSigned('{}', {}, path)));
    const texts = await Promise.all(answers.map((answer) => answer.text()));
    expect(new Set(texts).size).toBe(1);
    expect(JSON.parse(texts[0]!)).toMatchObject({ status: 404, code: 'api/no-hook' });
  });

  test.each([
    ['text/html', null],
    ['application/xml', null],
    ['multipart/form-data; boundary=x', null],
    ['application/json; charset=latin1', null],
    ['application/json', 'gzip'],
    ['', null],
  ])('has the type %j and the encoding %j', async (type, encoding) => {
    const headers = { 'content-type': type, ...(encoding === null ? {} : { 'content-encoding': encoding }) };
    expect(await codeOf(await sendSigned('{}', { headers }))).toEqual([415, 'api/unsupported-body']);
  });

  test.each(['GET', 'HEAD', 'PUT', 'DELETE', 'PATCH'])('has the method %s', async (method) => {
    const answer = await send(PATH, { method });
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST']);
    expect(answer.headers.get('access-control-allow-origin')).toBeNull();
  });

  test('announces too many bytes, or sends them without saying so', async () => {
    expect(await codeOf(await send(PATH, { body: '{}', headers: { 'content-length': String(MIB + 1) } }))).toEqual([
      413,
      'api/too-large',
    ]);
    let pulled = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled += 1;
        controller.enqueue(new Uint8Array(MIB / 4));
      },
    });
    expect(await codeOf(await send(PATH, { body }))).toEqual([413, 'api/too-large']);
    expect(pulled).toBeLessThan(8);
  });

  test('waits for the database', async () => {
    open = () => Promise.reject(new CodedError('api/access-unavailable', 'it does not answer'));
    expect(await codeOf(await sendSigned('{}'))).toEqual([503, 'api/access-unavailable']);
  });

  test('does not learn why the secrets cannot be read, and the owner does', async () => {
    readSecrets = () => Promise.reject(new AppError('environment', 'api/access-unavailable', 'no key in /home/me/key'));
    for (const body of ['{}', '[]']) {
      const answer = await sendSigned(body);
      expect([answer.status, await answer.text()]).toEqual([503, expect.not.stringContaining('/home/me')]);
    }
    expect(logged).toEqual(['secrets of webhooks cannot be read: no key in /home/me/key']);
  });

  test('has a path that is not percent-encoded', async () => {
    expect(await codeOf(await sendSigned('{}', {}, '/hooks/review/%ff'))).toEqual([400, 'api/invalid-request']);
  });
});

describe('a second', () => {
  const send50 = async (address: string): Promise<readonly number[]> => {
    const statuses: number[] = [];
    for (let at = 0; at < 52; at += 1) statuses.push((await send(PATH, { body: '{}', address })).status);
    return statuses;
  };

  test('has 50 requests of one address without a proof, and others have theirs', async () => {
    const statuses = await send50('192.0.2.7');
    expect(statuses.filter((status) => status === 401)).toHaveLength(50);
    expect(statuses.slice(50)).toEqual([429, 429]);
    // Also a right proof would have to be read.
    const refused = await sendSigned('{}');
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
    expect((await sendSigned('{}', { address: '192.0.2.8' })).status).toBe(202);
    nowMs += 1_000;
    expect((await sendSigned('{}')).status).toBe(202);
  });

  test('has 50 requests of one network of IPv6', async () => {
    await send50('2001:db8::1');
    expect((await sendSigned('{}', { address: '2001:db8:0:0:ffff::2' })).status).toBe(429);
    expect((await sendSigned('{}', { address: '2001:db8:0:1::1' })).status).toBe(202);
  });

  test('has any number of requests with a right proof, and 50 of a webhook without one', async () => {
    for (let at = 0; at < 200; at += 1) expect((await sendSigned(`{"a":${at}}`)).status).toBe(202);
    const statuses: number[] = [];
    for (let at = 0; at < 51; at += 1) statuses.push((await send('/hooks/review/open', { body: '{}' })).status);
    expect(statuses.indexOf(429)).toBe(50);
  });

  test.each(['/hooks/none/push', '/hooks/review/none'])('counts requests of %s', async (path) => {
    const statuses: number[] = [];
    for (let at = 0; at < 51; at += 1) statuses.push((await sendSigned('{}', {}, path)).status);
    expect(statuses.indexOf(429)).toBe(50);
  });
});

describe('bodies that arrive at the same time', () => {
  /** A body of which the last byte does not arrive until `end` is called. */
  function openBody(bytes: number): { readonly body: ReadableStream<Uint8Array>; end(): void } {
    let controller: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({
      start(started) {
        controller = started;
        controller.enqueue(new Uint8Array(bytes));
      },
    });
    return { body, end: () => controller.close() };
  }

  test('have a limit of memory for each address and for all, which is free again', async () => {
    const bodies = [openBody(MIB), openBody(MIB)];
    const held = bodies.map(({ body }) => send(PATH, { body, address: '192.0.2.7' }));
    await new Promise((resolve) => setTimeout(resolve, 20));
    const busy = await sendSigned('{}', { address: '192.0.2.7' });
    expect([busy.status, busy.headers.get('retry-after')]).toEqual([503, '1']);
    expect((await sendSigned('{}', { address: '192.0.2.8' })).status).toBe(202);
    const third = openBody(MIB);
    const heldToo = send(PATH, { body: third.body, address: '192.0.2.8' });
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(await codeOf(await sendSigned('{}', { address: '192.0.2.9' }))).toEqual([503, 'api/busy']);
    for (const { end } of [...bodies, third]) end();
    expect((await Promise.all([...held, heldToo])).map(({ status }) => status)).toEqual([401, 401, 401]);
    expect((await sendSigned('{}', { address: '192.0.2.7' })).status).toBe(202);
  });
});

describe('a challenge', () => {
  const slack = (body: string, secret = SECRET) => {
    const time = String(nowMs / 1_000);
    const signature = createHmac('sha256', secret).update(`v0:${time}:${body}`).digest('hex');
    return send('/hooks/review/slack', {
      body,
      headers: { 'x-slack-signature': `v0=${signature}`, 'x-slack-request-timestamp': time },
    });
  };

  test('by Slack is answered once it is verified, and is no event', async () => {
    const body = JSON.stringify({ type: 'url_verification', token: 'x', challenge: '3eZbrw1aBm2rZgRNFdxV2595E9CY' });
    const answer = await slack(body);
    expect([answer.status, await answer.text()]).toEqual([200, '3eZbrw1aBm2rZgRNFdxV2595E9CY']);
    expect(answer.headers.get('content-type')).toMatch(/^text\/plain/);
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    expect((await slack(body, 'other')).status).toBe(401);
    expect(woken).toBe(0);
  });

  test.each([
    JSON.stringify({ type: 'url_verification', challenge: '<script>' }),
    JSON.stringify({ type: 'url_verification' }),
    JSON.stringify({ type: 'event_callback', challenge: 'a' }),
  ])('by Slack in another form is an event: %s', async (body) => {
    expect((await slack(body)).status).toBe(202);
  });

  const ask = (query: Readonly<Record<string, string>>, path = '/hooks/review/meta') =>
    send(`${path}?${new URLSearchParams(query).toString()}`, { method: 'GET' });
  const question = (token: string) => ({
    'hub.mode': 'subscribe',
    'hub.verify_token': token,
    'hub.challenge': '1158201444',
  });

  test('by Meta is answered if its token is made of the secret', async () => {
    // printf 'hub.verify_token:%s' 'a secret' | sha256sum
    const token = '0a88190f254fd85668c2a695ef258cb0b3d297f9962cc2a6ebb552cb84b8abf6';
    expect(makeMetaToken(SECRET)).toBe(token);
    const answer = await ask(question(token));
    expect([answer.status, await answer.text()]).toEqual([200, '1158201444']);
    expect(await codeOf(await ask(question('other')))).toEqual([401, 'api/hook-unproven']);
    expect(await codeOf(await ask(question(SECRET)))).toEqual([401, 'api/hook-unproven']);
    expect(await codeOf(await ask({ ...question(token), 'hub.mode': 'unsubscribe' }))).toEqual([
      401,
      'api/hook-unproven',
    ]);
    expect(await codeOf(await ask({ ...question(token), 'hub.challenge': '<b>' }))).toEqual([401, 'api/hook-unproven']);
  });

  test('by Meta gets 405 from a webhook of another sender, and 404 without one', async () => {
    expect(await codeOf(await ask(question(makeMetaToken(SECRET)), PATH))).toEqual([405, 'api/hook-method']);
    expect(await codeOf(await ask(question('x'), '/hooks/review/none'))).toEqual([404, 'api/no-hook']);
  });

  test('by Meta counts if its token is wrong', async () => {
    const statuses: number[] = [];
    for (let at = 0; at < 51; at += 1) statuses.push((await ask(question(`guess ${at}`))).status);
    expect(statuses.indexOf(429)).toBe(50);
  });
});
