/** A client of the real API, whose requests are function calls. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunEvent } from '../domain/run/event.ts';
import { createApi } from '../server/api.ts';
import { API_LIMITS } from '../server/limits.ts';
import { readEnvironment } from '../setup/environment.ts';
import { openStores } from '../store/open-stores.ts';
import { openUploads } from '../store/open-uploads.ts';
import type { Stores } from '../store/stores.ts';
import { leaveFinishedRuns } from '../test/cli/finished-runs.ts';
import { openAsOwner, refuseAccess } from '../test/rig/access/owner.ts';
import { CANCELLED, createAdmitted } from '../test/rig/runs/asked-machine.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createStartLink, type StartedWorkflow } from '../test/rig/runs/start-link.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { createMemorySessions } from '../test/rig/skills/memory-session-control.ts';
import { type Client, createClient } from './client.ts';
import { ApiError } from './errors.ts';

const dir = mkdtempSync(join(tmpdir(), 'voidbox-client-'));
const env = readEnvironment({ VOIDBOX_STATE_DIR: join(dir, 'state'), VOIDBOX_CACHE_DIR: join(dir, 'cache') });
let stores: Stores;
const sessions = createMemorySessions(['first']);

beforeAll(async () => {
  await leaveFinishedRuns(env.stateDir);
  stores = await openStores(env);
});
afterAll(async () => {
  await stores.close();
  rmSync(dir, { recursive: true, force: true });
});

function connectTo(used: Stores, started: StartedWorkflow[] = []): Client {
  const link = createStartLink({
    has: (id) => started.some(({ workflowId }) => workflowId === id),
    start: (workflow) => void started.push(workflow),
  });
  const api = openAsOwner(
    createApi({
      machine: createTestMachine(used, { env, stackLink: () => Promise.resolve(link) }),
      uploads: openUploads(env),
      access: refuseAccess,
      openSessions: () => Promise.resolve(sessions),
      version: '1.2.3',
      limits: { ...API_LIMITS, heartbeatMs: 20 },
      log: () => undefined,
    }),
  );
  return createClient({
    url: 'http://voidbox',
    fetch: async (url, init) => await api.request(url.slice('http://voidbox'.length), init),
  });
}

async function failureOf(work: Promise<unknown>): Promise<ApiError> {
  return await work.then(
    () => {
      throw new Error('it succeeded');
    },
    (error: unknown) => error as ApiError,
  );
}

test('a client lists runs page by page, and reads one', async () => {
  const { runs } = connectTo(stores);
  const first = await runs.list({ limit: 1 });
  const second = await runs.list({ limit: 1, cursor: first.next! });
  expect([...first.runs, ...second.runs].map(({ runId }) => runId).toSorted()).toEqual(['sales-bad', 'sales-good']);
  expect((await runs.list({ state: 'failed' })).runs).toHaveLength(1);
  expect(await runs.get('sales-bad')).toMatchObject({ state: 'failed', failedStage: 'check' });
});

test('a client reads the result and the outputs of a run', async () => {
  const { runs } = connectTo(stores);
  const { outputText, state } = await runs.result('sales-good');
  expect(state).toBe('succeeded');
  const { artifacts } = await runs.artifacts('sales-good');
  const own = artifacts.find(({ name }) => name === null)!;
  const bytes = await runs.readArtifact('sales-good', own);
  expect(bytes).toHaveLength(own.sizeBytes);
  const pieces: Uint8Array[] = [];
  for await (const piece of runs.streamArtifact('sales-good', own)) pieces.push(piece);
  expect(Buffer.concat(pieces)).toEqual(Buffer.from(bytes));
  expect(outputText).not.toBeNull();
});

test('a client asks whether the service answers, can start runs, and which version it has', async () => {
  const client = connectTo(stores);
  expect(await client.health()).toEqual({ status: 'ok' });
  expect(await client.version()).toEqual({ version: '1.2.3', api: 'v1' });
  expect(typeof (await client.ready()).isReady).toBe('boolean');
});

async function collect<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

test('a client reads the log of a run by its filters, and follows it', async () => {
  const { runs } = connectTo(stores);
  const all = await collect(runs.logs('sales-good'));
  expect(all.length).toBeGreaterThan(2);
  expect(await collect(runs.followLogs('sales-good'))).toEqual(all);
  expect(await collect(runs.logs('sales-good', { tail: 1 }))).toEqual(all.slice(-1));
  expect((await collect(runs.logs('sales-good', { outputOnly: true }))).length).toBeLessThan(all.length);
  expect((await collect(runs.logs('sales-good', { timestamps: true, tail: 1 })))[0]).toMatch(/^20\d\d-/);
  expect(await failureOf(runs.logs('sales-good', { stage: 'none' }).next())).toBeInstanceOf(ApiError);
});

test('a client acts on many runs, and lists questions and kept VMs', async () => {
  const client = connectTo(stores);
  const { results } = await client.runs.act({ action: 'cancel', runs: ['sales-good'], dryRun: true });
  expect(results).toMatchObject([{ runId: 'sales-good' }]);
  expect(await failureOf(client.runs.act({ action: 'cancel' }))).toMatchObject({ code: 'api/invalid-request' });
  expect(await client.questions()).toEqual({ questions: [], hasMore: false });
  expect(await client.vms.list()).toEqual({ vms: [] });
  expect(await failureOf(client.vms.end({ runId: 'sales-good', stage: 'check' }))).toMatchObject({ fault: 'usage' });
});

test('a client starts, answers, reads, lists and cancels sessions', async () => {
  const client = connectTo(stores).sessions;
  expect(await client.start({ skill: 'greeter', session: 'second' })).toMatchObject({ result: { kind: 'prompt' } });
  expect(await failureOf(client.start({ skill: 'greeter', session: 'second' }))).toMatchObject({
    code: 'api/session-exists',
  });
  expect(await client.advance('second', { step: 'ask', turn: 1, output: 'x' })).toMatchObject({ result: { turn: 2 } });
  expect(await client.result('second')).toMatchObject({ session: 'second', result: { turn: 2 } });
  expect(await client.get('second')).toMatchObject({ session: 'second', status: expect.any(String) as string });
  expect((await client.list({ state: 'open', limit: 1 })).sessions).toHaveLength(1);
  expect(await client.list({ waiting: true })).toMatchObject({ hasMore: false });
  expect(await collect(client.history('second'))).toMatchObject([{ step: 'ask', turn: 1 }]);
  expect(await client.cancel('second')).toEqual({ session: 'second', wasOpen: true, hasEnded: true });
  expect(await failureOf(client.get('none'))).toMatchObject({ code: 'api/no-session', status: 404 });
});

test('a client follows an open run until its end, and gets each event once', async () => {
  const memory = openMemoryStores(new MemoryPlace());
  await memory.events.append('open', [createAdmitted()]);
  const events = connectTo(memory).runs.follow('open');
  const seen: RunEvent[] = [];
  let next = await events.next();
  for (; next.done !== true; next = await events.next()) {
    seen.push(next.value);
    if (next.value.body.type === 'run-admitted') await memory.events.append('open', [CANCELLED]);
  }
  expect(next.value).toEqual({ state: 'cancelled' });
  expect(seen.map(({ seq }) => seq)).toEqual([1, 2]);
});

test('a client starts a spec with its upload, and a second start with the key starts nothing', async () => {
  const started: StartedWorkflow[] = [];
  const client = connectTo(openMemoryStores(new MemoryPlace()), started);
  const spec =
    'api_version: v1\nkind: workflow\nname: a\nsandbox: { mode: mock }\nworkflow: { steps: [{ name: one, run: { program: echo } }] }\n';
  const bytes = new TextEncoder().encode('some bytes');
  const blob = await client.blobs.put(bytes);
  expect(blob.sizeBytes).toBe(bytes.length);
  expect(await client.blobs.put(bytes)).toEqual(blob);
  const { runId } = await client.runs.start({ spec, baseDir: dir }, { key: 'a-key' });
  expect((await client.runs.start({ spec, baseDir: dir }, { key: 'a-key' })).runId).toBe(runId);
  expect(started.map(({ workflowId }) => workflowId)).toHaveLength(1);
  expect(started[0]!.workflowId).toContain(runId);
});

test('a refusal has its code, status, detail and remedy, and a spec with mistakes its diagnostics', async () => {
  const { runs } = connectTo(stores);
  const unknown = await failureOf(runs.get('no such run/..'));
  expect(unknown).toBeInstanceOf(ApiError);
  expect(unknown).toMatchObject({ code: 'api/no-run', status: 404, fault: 'usage' });
  expect(unknown.remedy).toEqual(expect.any(String));
  const mistaken = await failureOf(runs.start({ spec: 'kind: nonsense\n', baseDir: dir }));
  expect(mistaken).toMatchObject({ code: 'spec/invalid', status: 422 });
  expect(mistaken.diagnostics[0]).toMatchObject({ line: 1 });
});
