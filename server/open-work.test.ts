import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import type { Machine } from '../app/machine.ts';
import type { ServerLink } from '../client/temporal/server-link.ts';
import { MOST_QUESTIONS } from '../app/service/open-questions.ts';
import type { RunEventBody } from '../domain/run/event.ts';
import { readEnvironment } from '../setup/environment.ts';
import { openUploads } from '../store/open-uploads.ts';
import type { Stores } from '../store/stores.ts';
import { openAsOwner, refuseAccess } from '../test/rig/access/owner.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { createApi } from './api.ts';
import { API_LIMITS } from './limits.ts';
import { ProblemSchema } from './schemas.ts';

const dir = mkdtempSync(join(tmpdir(), 'voidbox-open-work-'));
const env = readEnvironment({ VOIDBOX_STATE_DIR: dir, VOIDBOX_CACHE_DIR: join(dir, 'cache') });
afterAll(() => rmSync(dir, { recursive: true, force: true }));

async function get(path: string, stores: Stores, change: Partial<Machine> = {}, method = 'GET') {
  const machine: Machine = createTestMachine(stores, { env, ...change });
  const uploads = openUploads({ stateDir: dir });
  const api = createApi({
    machine,
    access: refuseAccess,
    uploads,
    version: '1.2.3',
    limits: API_LIMITS,
    log: () => undefined,
  });
  return await openAsOwner(api).request(`/api/v1/${path}`, { method });
}

async function leaveAsking(runId: string, stages: number): Promise<Stores> {
  const stores = openMemoryStores(new MemoryPlace());
  const question = { message: 'Ship it?', by: ['ops'], fields: [], deadlineAtMs: null, onTimeout: 'fail' } as const;
  const bodies: RunEventBody[] = Array.from({ length: stages }, (_, at) => ({
    type: 'stage-asking',
    stage: `ship${at}`,
    execKey: `ship${at}/0/1`,
    attempt: 1,
    question,
  }));
  await stores.events.append(
    runId,
    bodies.map((body, at) => ({ id: `q${at}`, atMs: at + 1, body })),
  );
  return stores;
}

test('the questions of open runs are listed with the stage that an answer names', async () => {
  const response = await get('questions', await leaveAsking('r', 2));
  expect(await response.json()).toMatchObject({
    questions: [
      { runId: 'r', stage: 'ship0', message: 'Ship it?', by: ['ops'], deadlineAt: null, onTimeout: 'fail' },
      { runId: 'r', stage: 'ship1' },
    ],
    hasMore: false,
  });
});

test('at most 1,000 questions are listed, and the answer tells that there are more', async () => {
  const read = async (count: number) =>
    (await (await get('questions', await leaveAsking('r', count))).json()) as {
      readonly questions: readonly unknown[];
      readonly hasMore: boolean;
    };
  const all = await read(MOST_QUESTIONS);
  expect([all.questions.length, all.hasMore]).toEqual([1_000, false]);
  const more = await read(MOST_QUESTIONS + 1);
  expect([more.questions.length, more.hasMore]).toEqual([1_000, true]);
});

test('a second cancel ends stages with `finally` too, unless the request keeps them', async () => {
  const asked: string[] = [];
  const describe = () => ({
    status: { name: 'RUNNING' },
    startTime: new Date(0),
    raw: { workflowExtendedInfo: { cancelRequested: asked.length > 0 } },
  });
  const handle = {
    describe: () => Promise.resolve(describe()),
    cancel: () => Promise.resolve(asked.push('cancel')),
    signal: (name: string) => Promise.resolve(asked.push(name)),
  };
  const client = { workflow: { getHandle: () => handle } };
  const link = { briefly: (call: (given: unknown) => unknown) => call(client) } as unknown as ServerLink;
  const stores = await leaveAsking('r', 1);
  const cancel = (query: string) =>
    get(`runs/r/cancel${query}`, stores, { stackLink: () => Promise.resolve(link) }, 'POST');
  for (const query of ['', '?finally=keep', '']) expect((await cancel(query)).status).toBe(200);
  expect(asked).toEqual(['cancel', 'cancel', 'cancelFinally']);
});

test('a service whose server does not answer is not ready, and names the server', async () => {
  const response = await get('ready', openMemoryStores(new MemoryPlace()));
  expect(response.status).toBe(503);
  expect(await response.json()).toEqual({
    isReady: false,
    missing: [{ part: 'server', problem: 'the Temporal server does not answer' }],
  });
});

test('a service whose runs cannot be read is not ready, and names the store', async () => {
  const stores = openMemoryStores(new MemoryPlace());
  const broken = { ...stores, index: { ...stores.index, openRuns: () => Promise.reject(new Error('no disk')) } };
  expect(await (await get('ready', broken)).json()).toMatchObject({
    missing: [{ part: 'store', problem: 'the runs cannot be read: no disk' }, { part: 'server' }],
  });
});

test('a state folder without kept VMs lists no VM, and ends none', async () => {
  const stores = openMemoryStores(new MemoryPlace());
  expect(await (await get('vms', stores)).json()).toEqual({ vms: [] });
  const response = await get('vms/r/ship', stores, {}, 'DELETE');
  expect(ProblemSchema.parse(await response.json())).toMatchObject({ status: 404, code: 'api/no-vm' });
});
