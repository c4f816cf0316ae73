/** Runs of deployments that a token starts, and events that try a webhook out. */
import { beforeEach, describe, expect, test } from 'vitest';
import { createToken } from '../app/access/tokens.ts';
import { createEvaluateDelivery } from '../app/deliveries/evaluate-delivery.ts';
import { MOST_DELAY_MS } from '../app/deliveries/trigger-deployment.ts';
import { MOST_SENT_EVENTS } from '../app/hooks/send-events.ts';
import { isDeliveryId } from '../domain/delivery/delivery-id.ts';
import { createDecide } from '../domain/delivery/decide.ts';
import type { HmacScheme, WebhookVerify } from '../domain/delivery/trigger.ts';
import { evaluateTrigger } from '../domain/language/expression/evaluate-trigger.ts';
import type { Scope } from '../domain/access/scopes.ts';
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

const SECRET = 'sesame-4711';
const nowMs = 1_800_000_000_000;
const SECRETS: Readonly<Record<string, readonly string[]>> = {
  HOOK: [SECRET, 'before'],
  STANDARD: [`whsec_${Buffer.from(SECRET).toString('base64')}`],
};
const HMAC: HmacScheme = {
  header: 'x-signature',
  prefix: 'v1=',
  algorithm: 'sha512',
  encoding: 'base64',
  timestamp: 'x-time',
};
const SCHEMES: readonly WebhookVerify[] = [
  ...(['github', 'gitlab', 'stripe', 'slack'] as const).map((scheme) => ({ scheme, secret: 'HOOK' })),
  { scheme: 'standard-webhooks', secret: 'STANDARD' },
  { scheme: 'hmac', secret: 'HOOK', ...HMAC },
  { scheme: 'none' },
];
const NAMES = SCHEMES.map(({ scheme }) => scheme);

let access: AccessStore;
let api: Api;
let tokens: number;

beforeEach(async () => {
  access = createMemoryAccess();
  tokens = 0;
  api = createApi({
    machine: createTestMachine(openMemoryStores(new MemoryPlace()), { now: () => new Date(nowMs) }),
    uploads: openUploads({ stateDir: '/nowhere/state' }),
    access: () => Promise.resolve(access),
    hooks: {
      readSecrets: (_deployment, name) => Promise.resolve(SECRETS[name] ?? []),
      wake: () => undefined,
    },
    version: '1.2.3',
    limits: API_LIMITS,
    log: () => undefined,
  });
  const triggers = [...SCHEMES, { scheme: 'github', secret: 'UNSET' } as const].map((verify, at) => ({
    ...WEBHOOK,
    name: at < SCHEMES.length ? verify.scheme : 'unset',
    source: { kind: 'webhook', verify, format: 'payload', respond: null } as const,
  }));
  await access.triggers.deployments.deploy(makeVersion('review', { triggers, paramNames: ['number', 'constructor'] }), {
    isPaused: false,
  });
});

interface Sent {
  readonly scope?: Scope;
  readonly runs?: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
}

async function post(path: string, body: unknown, { scope = 'admin', runs = [], headers = {} }: Sent = {}) {
  tokens += 1;
  const request = { name: `t${tokens}`, scopes: [scope], runs: [...runs], groups: [], allowGit: [], lifeMs: 60_000 };
  const { text } = await createToken(request, { tokens: access.tokens, nowMs });
  return await api.request(
    `/api/v1/deployments/${path}`,
    {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${text}`, ...headers },
      body: JSON.stringify(body),
    },
    { connection: { listener: 'tcp', address: '192.0.2.7', end: () => undefined } },
  );
}

async function codeOf(response: Response): Promise<readonly [number, string]> {
  return [response.status, ProblemSchema.parse(await response.json()).code];
}

describe('a run of a deployment', () => {
  const start = async (body: object, sent: Sent = {}): Promise<DeliveryRow> => {
    const response = await post('review/runs', body, { scope: 'run', ...sent });
    expect(response.status).toBe(202);
    const { delivery, runId } = (await response.json()) as { readonly delivery: string; readonly runId: string };
    expect(runId).toBe(`review-${delivery}`);
    return (await access.triggers.deliveries.find(delivery))!;
  };

  test('is a delivery with its input, its parameters and no headers', async () => {
    const row = await start({ input: 'hello', params: { number: '7', constructor: 'x' } });
    expect(isDeliveryId(row.id)).toBe(true);
    expect(row).toMatchObject({
      trigger: 'api',
      version: 1,
      contentType: 'text/plain',
      headers: {},
      params: { number: '7', constructor: 'x' },
      senderId: row.id,
      notBeforeMs: null,
      expiresAtMs: null,
    });
    expect(Buffer.from((await access.triggers.deliveries.readBody(row.id))!).toString()).toBe('hello');
  });

  test('starts at a time, and expires after it', async () => {
    const at = new Date(nowMs + 60_000).toISOString();
    expect(await start({ at, ttlMs: 5_000 })).toMatchObject({
      notBeforeMs: nowMs + 60_000,
      expiresAtMs: nowMs + 65_000,
    });
    expect(await start({ afterMs: 7_000 })).toMatchObject({ notBeforeMs: nowMs + 7_000, expiresAtMs: null });
    expect(await start({ at: new Date(0).toISOString(), ttlMs: 5_000 })).toMatchObject({ expiresAtMs: nowMs + 5_000 });
  });

  test('starts at most 366 days from now, and expires at most 366 days after that', async () => {
    const mostMs = 366 * 24 * 60 * 60_000;
    const at = new Date(nowMs + MOST_DELAY_MS).toISOString();
    expect(MOST_DELAY_MS).toBe(mostMs);
    expect(await start({ at, ttlMs: mostMs })).toMatchObject({
      notBeforeMs: nowMs + mostMs,
      expiresAtMs: nowMs + 2 * mostMs,
    });
    expect(await start({ afterMs: mostMs })).toMatchObject({ notBeforeMs: nowMs + mostMs });
    for (const body of [
      { at: new Date(nowMs + mostMs + 1).toISOString() },
      { afterMs: mostMs + 1 },
      { ttlMs: mostMs + 1 },
    ])
      expect(await codeOf(await post('review/runs', body))).toEqual([400, 'api/invalid-request']);
  });

  test('has the key of its sender, for which one run starts', async () => {
    expect(await start({}, { headers: { 'idempotency-key': 'k-1' } })).toMatchObject({ senderId: 'k-1' });
  });

  test.each([
    ['a time that is too far away', { at: new Date(nowMs + 367 * 86_400_000).toISOString() }, {}],
    ['two times', { at: new Date(nowMs).toISOString(), afterMs: 5 }, {}],
    ['a text that is no time', { at: 'tomorrow' }, {}],
    ['a life that is too short', { ttlMs: 999 }, {}],
    ['an input that is too large', { input: 'ü'.repeat(524_289) }, {}],
    ['an unknown key', { later: 5 }, {}],
    ['half a character', { params: { number: '\ud800' } }, {}],
    ['a parameter that the spec does not have', { params: { number: '1', numbr: '7' } }, {}],
    ['a key with a blank', {}, { 'idempotency-key': 'a b' }],
  ])('is refused with %s', async (_name, body, headers) => {
    expect(await codeOf(await post('review/runs', body, { scope: 'run', headers }))).toEqual([
      400,
      'api/invalid-request',
    ]);
  });

  test('is refused with an unknown parameter before it is accepted, and the message has the known ones', async () => {
    const problem = ProblemSchema.parse(await (await post('review/runs', { params: { numbr: '7' } })).json());
    expect(problem.detail).toBe(
      '`params`: the spec of version 1 has no parameter "numbr"; its parameters: number, constructor',
    );
    expect(await access.triggers.deliveries.list({ limit: 9 })).toEqual([]);
  });

  test('needs a deployment, and a token that may see the run', async () => {
    expect(await codeOf(await post('none/runs', {}))).toEqual([404, 'api/no-deployment']);
    expect(await codeOf(await post('review/runs', {}, { scope: 'read' }))).toEqual([403, 'api/not-allowed']);
    expect(await codeOf(await post('review/runs', {}, { scope: 'run', runs: ['other-*'] }))).toEqual([
      403,
      'api/not-allowed',
    ]);
    expect((await post('review/runs', {}, { scope: 'run', runs: ['review-*'] })).status).toBe(202);
  });

  test('is in the audit log with its id', async () => {
    const { id } = await start({});
    expect(await access.audit.list({ limit: 1 })).toMatchObject([
      { route: '/api/v1/deployments/:deployment/runs', runId: `review-${id}`, status: 202 },
    ]);
  });
});

const evaluate = createEvaluateDelivery({ evaluateTrigger: (asked) => Promise.resolve(evaluateTrigger(asked)) });

describe('events that try a webhook out', () => {
  const encode = (text: string): string => Buffer.from(text).toString('base64');

  const sendTo = async (
    trigger: string,
    body: object,
  ): Promise<
    readonly { readonly body: number; readonly delivery: string | null; readonly refusal: string | null }[]
  > => {
    const response = await post(`review/triggers/${trigger}/send`, body);
    const text = await response.text();
    expect([response.status, text]).toEqual([200, expect.not.stringContaining(SECRET)]);
    return (JSON.parse(text) as { readonly sent: [] }).sent;
  };

  test.each(NAMES)('are signed for `%s`, and verified', async (trigger) => {
    const [sent] = await sendTo(trigger, { bodies: [encode('{"id":"evt_1"}')] });
    expect(sent).toEqual({ body: 0, delivery: expect.any(String), deliveries: null, refusal: null });
    expect(JSON.stringify(await access.triggers.deliveries.find(sent!.delivery!))).not.toContain(SECRET);
  });

  test.each(NAMES)('that `%s` sends twice start one run', async (trigger) => {
    const sent = await sendTo(trigger, { bodies: [encode('{"id":"evt_1"}')], times: 2 });
    const { deliveries } = access.triggers;
    const claim = { token: 't', nowMs, leaseMs: 1_000 };
    await deliveries.claim({ ...claim, limit: 9 });
    const states: unknown[] = [];
    for (const { delivery } of sent) {
      const row = (await deliveries.find(delivery!))!;
      const evaluation = await evaluate(WEBHOOK, row, (await deliveries.readBody(row.id))!);
      if ('code' in evaluation) throw new Error(evaluation.message);
      const decide = createDecide({ trigger: WEBHOOK, evaluation });
      const decided = await deliveries.decide({
        ...claim,
        id: row.id,
        trigger: WEBHOOK,
        keys: evaluation.keys,
        decide,
      });
      states.push(decided?.state);
    }
    expect(states).toEqual(['starting', 'deduplicated']);
  });

  test('are repeated with their ids, in another order, with a name', async () => {
    const bodies = [encode('{"a":1}'), encode('{"a":2}')];
    const sent = await sendTo('github', { bodies, times: 2, reorder: true, event: 'pull_request' });
    expect(sent.map(({ body }) => body)).toEqual([1, 0, 1, 0]);
    const rows = await Promise.all(
      sent.map(async ({ delivery }) => (await access.triggers.deliveries.find(delivery!))!),
    );
    expect(new Set(rows.map(({ id }) => id)).size).toBe(4);
    expect(rows[0]!.senderId).toBe(rows[2]!.senderId);
    expect(rows[0]!.senderId).not.toBe(rows[1]!.senderId);
    expect(rows[0]!.headers).toMatchObject({ 'x-github-event': 'pull_request', 'content-type': 'application/json' });
  });

  test('are at most 100 in a request, counted with their repetitions', async () => {
    expect(MOST_SENT_EVENTS).toBe(100);
    const bodies = Array.from({ length: MOST_SENT_EVENTS }, () => 'e30=');
    expect(await sendTo('none', { bodies })).toHaveLength(MOST_SENT_EVENTS);
    expect(await sendTo('none', { bodies: bodies.slice(50), times: 2 })).toHaveLength(MOST_SENT_EVENTS);
    const path = 'review/triggers/none/send';
    for (const body of [{ bodies: [...bodies, 'e30='] }, { bodies: ['e30='], times: 101 }])
      expect(await codeOf(await post(path, body))).toEqual([400, 'api/invalid-request']);
  });

  test('are refused as the sender would be, with the reason', async () => {
    const bodies = [encode('{}')];
    expect(await sendTo('github', { bodies, headers: { 'X-Hub-Signature-256': 'sha256=00' } })).toMatchObject([
      { delivery: null, refusal: 'its signature, its id or its time has another form' },
    ]);
    expect(await sendTo('unset', { bodies })).toMatchObject([
      { delivery: null, refusal: 'the secret of the trigger is absent, empty or has another form' },
    ]);
  });

  test.each([
    ['api/no-hook', 'none/triggers/github', {}],
    ['api/no-hook', 'review/triggers/other', {}],
    ['api/unsupported-body', 'review/triggers/github', { contentType: 'text/html' }],
    ['api/too-large', 'review/triggers/github', { bodies: [Buffer.alloc(1024 * 1024 + 1).toString('base64')] }],
    ['api/invalid-request', 'review/triggers/stripe', { event: 'push' }],
    ['api/invalid-request', 'review/triggers/github', { bodies: ['e30=', 'e30='], times: 51 }],
    ['api/invalid-request', 'review/triggers/github', { bodies: ['!'] }],
    ['api/invalid-request', 'review/triggers/github', { headers: { 'a b': 'x' } }],
    ['api/invalid-request', 'review/triggers/github', { headers: { a: 'x\r\ny' } }],
  ])('are refused with %s: %s %j', async (code, path, body) => {
    expect((await codeOf(await post(`${path}/send`, { bodies: ['e30='], ...body })))[1]).toBe(code);
  });

  test('need a token that may see the deployment', async () => {
    const sent = await post('review/triggers/github/send', { bodies: ['e30='] }, { runs: ['other-*'] });
    expect(await codeOf(sent)).toEqual([403, 'api/not-allowed']);
    expect(await access.triggers.deliveries.list({ limit: 9 })).toEqual([]);
  });

  test('need the scope `admin`', async () => {
    const response = await post('review/triggers/github/send', { bodies: ['e30='] }, { scope: 'run' });
    expect(await codeOf(response)).toEqual([403, 'api/not-allowed']);
  });
});
