/** Webhooks whose senders wait for the run, on the whole API. */
import { beforeEach, expect, test } from 'vitest';
import type { AccessStore } from '../store/access.ts';
import { openUploads } from '../store/open-uploads.ts';
import type { Stores } from '../store/stores.ts';
import { makeVersion, WEBHOOK } from '../test/conformance/deployments.ts';
import { createMemoryAccess } from '../test/rig/access/memory-access.ts';
import { type DeliveredEnd, endNextDelivery } from '../test/rig/runs/end-delivery.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { type Api, createApi } from './api.ts';
import { API_LIMITS } from './limits.ts';
import { ProblemSchema } from './schemas.ts';

let access: AccessStore;
let stores: Stores;
let api: Api;

async function serve({ waitMs = 10_000, hookWaits = API_LIMITS.hookWaits } = {}): Promise<void> {
  access = createMemoryAccess();
  stores = openMemoryStores(new MemoryPlace());
  api = createApi({
    machine: createTestMachine(stores),
    uploads: openUploads({ stateDir: '/nowhere/state' }),
    access: () => Promise.resolve(access),
    version: '1.2.3',
    limits: { ...API_LIMITS, hookWaits },
    log: () => undefined,
  });
  const respond = { waitMs, output: null, status: 201 };
  const source = { kind: 'webhook', verify: { scheme: 'none' }, format: 'payload', respond } as const;
  await access.triggers.deployments.deploy(makeVersion('review', { triggers: [{ ...WEBHOOK, source }] }), {
    isPaused: false,
  });
}

beforeEach(() => serve());

async function send(signal?: AbortSignal): Promise<Response> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' };
  return await api.request('/hooks/review/push', signal === undefined ? init : { ...init, signal });
}

async function work(holds: boolean, end: DeliveredEnd = {}): Promise<void> {
  await endNextDelivery({ deliveries: access.triggers.deliveries, stores }, { ...end, holds });
}

test('the output of the run is the answer, as an attachment that no browser shows', async () => {
  const sent = send();
  await work(true, { output: '<script>alert(1)</script>' });
  const answer = await sent;
  expect([answer.status, await answer.text()]).toEqual([201, '<script>alert(1)</script>']);
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    'content-type': 'text/plain; charset=utf-8',
    'content-disposition': 'attachment',
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
  });
});

test('a failed run is the status 500, and names the run', async () => {
  const sent = send();
  await work(true, { state: 'failed' });
  const problem = ProblemSchema.parse(await (await sent).json());
  expect(problem).toMatchObject({
    status: 500,
    code: 'api/hook-failed',
    detail: expect.stringMatching(/^review-\w{26}: /),
  });
});

test('an event without a run is accepted, with its state', async () => {
  const sent = send();
  await work(false);
  const answer = await sent;
  expect([answer.status, await answer.json()]).toEqual([202, { delivery: expect.any(String), state: 'filtered' }]);
});

test('a run that has not ended in time is an accepted event', async () => {
  await serve({ waitMs: 20 });
  const answer = await send();
  expect([answer.status, await answer.json()]).toEqual([202, { delivery: expect.any(String), state: 'accepted' }]);
});

test('a sender above the limit of waits gets its answer at once', async () => {
  await serve({ hookWaits: 1 });
  const first = send();
  await new Promise((resolve) => setTimeout(resolve, 20));
  const second = await send();
  expect([second.status, await second.json()]).toEqual([202, { delivery: expect.any(String) }]);
  await work(true, { output: 'done' });
  expect((await first).status).toBe(201);
});

test('a sender that goes ends its wait, and its delivery stays', async () => {
  const gone = new AbortController();
  const sent = send(gone.signal);
  await new Promise((resolve) => setTimeout(resolve, 20));
  gone.abort();
  await sent.catch(() => undefined);
  expect(await access.triggers.deliveries.list({ limit: 9 })).toMatchObject([{ state: 'accepted' }]);
});
