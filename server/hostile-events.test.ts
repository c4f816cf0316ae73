/** Hostile requests to webhooks of every scheme: none is a bug, and none without a right proof is a delivery. */
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { chooseScheme } from '../app/hooks/schemes.ts';
import { NAMED_SCHEMES, type WebhookVerify } from '../domain/delivery/trigger.ts';
import type { AccessStore } from '../store/access.ts';
import { openUploads } from '../store/open-uploads.ts';
import { makeVersion, WEBHOOK } from '../test/conformance/deployments.ts';
import { createMemoryAccess } from '../test/rig/access/memory-access.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { type Api, createApi } from './api.ts';
import { API_LIMITS } from './limits.ts';

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const NOW_MS = 1_800_000_000_000;
const ROUNDS = 250;
const SEED = 20_261_130;

const SCHEMES: readonly WebhookVerify[] = [
  ...NAMED_SCHEMES.map((scheme) => ({ scheme, secret: 'HOOK' }) as const),
  {
    scheme: 'hmac',
    secret: 'HOOK',
    header: 'x-s',
    prefix: 'v=',
    algorithm: 'sha1',
    encoding: 'base64',
    timestamp: 'x-t',
  },
];

let access: AccessStore;
let api: Api;
let logged: string[];

beforeAll(async () => {
  access = createMemoryAccess();
  const triggers = SCHEMES.map((verify) => ({
    ...WEBHOOK,
    name: verify.scheme,
    source: { kind: 'webhook', verify, format: 'payload', respond: null } as const,
  }));
  await access.triggers.deployments.deploy(makeVersion('review', { triggers }), { isPaused: false });
  api = createApi({
    machine: createTestMachine(openMemoryStores(new MemoryPlace()), { now: () => new Date(NOW_MS) }),
    uploads: openUploads({ stateDir: '/nowhere/state' }),
    access: () => Promise.resolve(access),
    hooks: { readSecrets: () => Promise.resolve([SECRET]), wake: () => undefined },
    version: '1.2.3',
    limits: { ...API_LIMITS, unprovenPerSecond: 1_000_000 },
    log: (line) => logged.push(line),
  });
});
beforeEach(() => void (logged = []));

/** A generator of numbers from 0 to 1 that repeats itself for a seed (mulberry32). */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const TEXTS = [
  '',
  '0',
  '-1',
  '1800000001',
  '99999999999999999999',
  '1e400',
  'NaN',
  ',',
  '=',
  'v1=',
  't=',
  't=1800000000,v1=',
  't=1800000000,t=1800000000',
  'v0=',
  'v1,',
  'v1, v1, v1,',
  'sha256=',
  'sha256=zz',
  `sha256=${'0'.repeat(64)}`,
  `v0=${'0'.repeat(64)}`,
  `v1,${'A'.repeat(43)}=`,
  `v=${'A'.repeat(27)}=`,
  'a.b.c',
  '__proto__',
  '\u00ff\u00fe',
  'x'.repeat(8_000),
  `${'v1,x '.repeat(1_000)}`.trim(),
];
const BODIES = [
  '',
  '{}',
  '[',
  '{"type":"url_verification","challenge":"x"}',
  '{"id":"x"}',
  '\0',
  '\ufeff{}',
  '['.repeat(5_000),
];
const TYPES = [
  'application/json',
  'text/plain',
  'application/x-www-form-urlencoded',
  'application/a+json;charset=utf-8',
];

test.each(SCHEMES)('no hostile request is a bug or a delivery of `$scheme`', async (verify) => {
  const random = createRandom(SEED);
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)]!;
  for (let round = 0; round < ROUNDS; round += 1) {
    const body = pick(BODIES);
    const event = { body: Buffer.from(body), nowMs: NOW_MS, id: 'x' };
    const right = chooseScheme(verify).sign(event, SECRET)!;
    const proof = Object.keys(right).filter((name) => !/delivery|idempotency|webhook-id/.test(name));
    // At least one header of the proof has another text.
    const broken = new Set([pick(proof), ...proof.filter(() => random() < 0.3)]);
    const headers = Object.fromEntries(
      Object.entries(right).map(([name, value]) => [name, broken.has(name) ? pick(TEXTS) : value] as const),
    );
    const response = await api.request(`/hooks/review/${verify.scheme}`, {
      method: 'POST',
      headers: { 'content-type': pick(TYPES), ...headers },
      body,
    });
    expect([response.status, await response.text()], JSON.stringify({ headers, body })).toEqual([
      401,
      expect.stringContaining('api/hook-unproven'),
    ]);
  }
  expect(await access.triggers.deliveries.list({ limit: 1 })).toEqual([]);
  expect(logged.filter((line) => !line.startsWith('the webhook '))).toEqual([]);
});
