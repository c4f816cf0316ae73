/** A link answers the question of a real run: through the API, a real Temporal server and the real activities. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ServerLink } from '../../client/temporal/server-link.ts';
import { awaitOutcome, startRun } from '../../client/runs/runs.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { type Api, createApi } from '../../server/api.ts';
import { API_LIMITS } from '../../server/limits.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { openUploads } from '../../store/open-uploads.ts';
import type { RunningWorkers } from '../../workers/workers.ts';
import { createMemoryAccess } from '../rig/access/memory-access.ts';
import { createTestMachine } from '../rig/runs/test-machine.ts';
import { temporalCliForTests } from '../rig/servers/temporal-cli.ts';
import { startTestStack, type TestStack } from '../rig/servers/test-worker.ts';

const BASE = 'https://api.example';
const OWNER = { connection: { listener: 'unix', address: null, end: () => undefined } } as const;
const STRANGER = { connection: { listener: 'tcp', address: '192.0.2.7', end: () => undefined } } as const;
const SPEC = `
kind: workflow
name: linked
sandbox: { mode: mock, isolation: none }
workflow:
  output_step: publish
  steps:
    - name: ship
      approval: { message: "Ship?", by: [anna], self_approval: false, fields: [{ name: count, type: number }] }
    - { name: publish, run: { program: cat, stdin_from: ship } }
`;

let stack: TestStack;
let worker: RunningWorkers;
let stateDir: string;
let api: Api;

beforeAll(async () => {
  stack = await startTestStack(createMockBackend({}), await temporalCliForTests(), () => undefined);
  worker = await stack.startWorker();
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-approval-links-'));
  const { client } = stack.runs;
  const link = {
    isEmbedded: true,
    client: () => client,
    briefly: async (call) => await call(client),
  } as Partial<ServerLink> as ServerLink;
  const access = createMemoryAccess();
  api = createApi({
    machine: createTestMachine(stack.stores, {
      env: readEnvironment({ VOIDBOX_STATE_DIR: stateDir, VOIDBOX_CACHE_DIR: join(stateDir, 'cache') }),
      stackLink: () => Promise.resolve(link),
    }),
    uploads: openUploads({ stateDir }),
    access: () => Promise.resolve(access),
    readClientUrl: () => Promise.resolve(BASE),
    version: '1.2.3',
    limits: API_LIMITS,
    log: () => undefined,
  });
});

afterAll(async () => {
  worker?.shutdown();
  await worker?.ended;
  await worker?.close();
  await stack?.stop();
  if (stateDir !== undefined) rmSync(stateDir, { recursive: true });
});

async function link(): Promise<string> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"as":"anna"}' };
  const answer = await api.request('/api/v1/runs/linked/approval-links', init, OWNER);
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { readonly url: string }).url.slice(BASE.length);
}

async function post(path: string, form: Readonly<Record<string, string>>): Promise<Response> {
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  return await api.request(path, { method: 'POST', headers, body: new URLSearchParams(form).toString() }, STRANGER);
}

test('a link answers for its name with a proof, once, and the output of the stage has the answer', async () => {
  await stack.stores.marks.put('linked', 'client', { baseDir: '/x', starter: { kind: 'token', name: 'ci' } });
  await startRun(stack.runs.client, { runId: 'linked', request: { spec: SPEC }, summary: 'linked' });
  while (!(await stack.eventsOf('linked')).some(({ body }) => body.type === 'stage-asking')) await sleep(20);
  const path = await link();
  expect((await post(path, { decision: 'approve', 'field.count': 'many' })).status).toBe(422);
  expect((await api.request(path, {}, STRANGER)).status).toBe(200);
  const both = await Promise.all([
    post(path, { decision: 'approve', comment: 'go', 'field.count': '3' }),
    post(path, { decision: 'reject' }),
  ]);
  expect(both.map(({ status }) => status).toSorted()).toEqual([200, 404]);
  const [approval] = both;
  const outcome = await awaitOutcome(stack.runs.client, 'linked');
  expect(outcome.state).toBe(approval.status === 200 ? 'succeeded' : 'failed');
  const answered = (await stack.eventsOf('linked')).find(({ body }) => body.type === 'stage-answered');
  expect(answered?.body).toMatchObject({ by: 'anna', verified: true });
  expect((await api.request(path, {}, STRANGER)).status).toBe(404);
});
