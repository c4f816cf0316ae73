/** The routes of retries and forks, up to the start of the workflow, which a client without a server records. */
import { mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { compileText } from '../domain/language/load.ts';
import { toWire } from '../domain/plan/wire.ts';
import type { RunEventBody } from '../domain/run/event.ts';
import { readEnvironment } from '../setup/environment.ts';
import { openStores } from '../store/open-stores.ts';
import { openUploads } from '../store/open-uploads.ts';
import type { Stores } from '../store/stores.ts';
import { leaveFinishedRuns } from '../test/cli/finished-runs.ts';
import { openAsOwner, refuseAccess } from '../test/rig/access/owner.ts';
import { RECORD_DEFAULTS } from '../test/rig/runs/admissions.ts';
import { createStartLink, type StartedWorkflow } from '../test/rig/runs/start-link.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { type Api, createApi } from './api.ts';
import { API_LIMITS } from './limits.ts';

/** `sales-bad` has failed at `check`. */
const SPEC = `kind: pipeline
name: sales
sandbox: { mode: mock, isolation: none }
pipeline:
  boxes:
    - { name: load, run: ls }
    - { name: check, run: ls }
    - { name: report, run: ls }
`;
const OTHER = SPEC.replace('name: check, run: ls', 'name: check, run: pwd');

let dir: string;
let stores: Stores;
let api: Api;
let started: StartedWorkflow[];

beforeEach(async () => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-reruns-api-')));
  started = [];
  await leaveFinishedRuns(join(dir, 'state'));
  stores = await openStores({ stateDir: join(dir, 'state') });
  const plan = toWire(compileText(SPEC, 'spec.yaml', { baseDir: dir }).plan!);
  await stores.records.put('sales-bad', 'admission', { ...RECORD_DEFAULTS, plan });
  const link = createStartLink({
    has: (workflowId) => started.some((each) => each.workflowId === workflowId),
    start: (workflow) => void started.push(workflow),
  });
  const env = readEnvironment({
    VOIDBOX_STATE_DIR: join(dir, 'state'),
    VOIDBOX_CACHE_DIR: join(dir, 'cache'),
    HOME: dir,
  });
  api = createApi({
    machine: createTestMachine(stores, { env, stackLink: () => Promise.resolve(link) }),
    access: refuseAccess,
    uploads: openUploads(env),
    version: '1.2.3',
    limits: API_LIMITS,
    log: () => undefined,
  });
});
afterEach(async () => {
  await stores.close();
  rmSync(dir, { recursive: true, force: true });
});

interface Answer {
  readonly runId: string;
  readonly code: string;
  readonly again?: readonly unknown[];
}

async function post(
  path: string,
  body: unknown,
  key?: string,
): Promise<{ readonly status: number; readonly json: Answer }> {
  const headers = { 'content-type': 'application/json', ...(key === undefined ? {} : { 'idempotency-key': key }) };
  const init = { method: 'POST', headers, body: JSON.stringify(body) };
  const response = await openAsOwner(api).request(`/api/v1/runs/${path}`, init);
  return { status: response.status, json: (await response.json()) as Answer };
}

test('a preview of a fork names what is equal, and leaves and starts nothing', async () => {
  const before = readdirSync(join(dir, 'state', 'runs'));
  const { status, json } = await post('sales-bad/fork?preview=true', { spec: OTHER, baseDir: dir });
  expect(status).toBe(200);
  expect(json).toMatchObject({ origin: { runId: 'sales-bad', kind: 'fork', from: null }, given: ['load'] });
  expect(json.again![0]).toMatchObject({ stage: 'check', because: 'differs', keys: ['args'] });
  expect(started).toEqual([]);
  expect(readdirSync(join(dir, 'state', 'runs'))).toEqual(before);
});

test('a fork starts the run that its preview shows, of a spec and of a plan', async () => {
  const spec = { spec: OTHER, baseDir: dir };
  const { json: preview } = await post('sales-bad/fork?preview=true', spec);
  const plan = toWire(compileText(OTHER, 'spec.yaml', { baseDir: dir }).plan!);
  const forks = [
    await post('sales-bad/fork', { ...spec, runId: 'one' }),
    await post('sales-bad/fork', { plan, runId: 'two' }),
  ];
  for (const { status, json } of forks) {
    expect(status).toBe(201);
    expect(json).toMatchObject({ ...preview, diagnostics: [] });
  }
  expect(started).toMatchObject([
    { workflowId: 'one', args: [{ origin: { runId: 'sales-bad', kind: 'fork', from: null } }] },
    { workflowId: 'two', args: [{ origin: { runId: 'sales-bad', kind: 'fork' }, plan: { name: 'sales' } }] },
  ]);
});

test('a preview of a retry has its plan only if it is asked for', async () => {
  const { json: shown } = await post('sales-bad/retry?preview=true', {});
  const { json: whole } = await post('sales-bad/retry?preview=plan', {});
  expect(Object.keys(shown)).not.toContain('plan');
  expect(whole).toMatchObject({ isOfOtherToken: false, plan: { name: 'sales', stages: [{ id: 'load' }, {}, {}] } });
  expect(started).toEqual([]);
});

test('a preview of a plan reads no upload', async () => {
  const plan = toWire(compileText(OTHER, 'spec.yaml', { baseDir: dir }).plan!);
  const uploads = { '/elsewhere/data': '0'.repeat(64) };
  expect((await post('sales-bad/fork?preview=true', { plan, uploads })).json).toMatchObject({ given: ['load'] });
  expect(await post('sales-bad/fork', { plan, uploads })).toMatchObject({ json: { code: 'api/no-blob' } });
});

test.each([
  ['fork', { spec: OTHER, timeoutMs: 60_000 }],
  ['retry', { from: 'load' }],
])('a %s with a key starts once, and the same request gets the same answer', async (verb, change) => {
  const body = verb === 'fork' ? { baseDir: dir, ...change } : change;
  const first = await post(`sales-bad/${verb}`, body, 'k');
  const second = await post(`sales-bad/${verb}`, { ...body, variables: { KEY: 'other' } }, 'k');
  expect([first.status, second.status]).toEqual([201, 200]);
  expect(second.json).toEqual(first.json);
  expect(started.map(({ workflowId }) => workflowId)).toEqual([first.json.runId]);
  const third = await post(`sales-bad/${verb}`, { ...body, input: 'x' }, 'k');
  expect([third.status, third.json.code]).toEqual([409, 'api/key-reused']);
});

test('many retries with a key start once, although the retries that have failed match the filter too', async () => {
  const body = { action: 'retry', filter: { state: 'failed' } };
  const first = await post('actions', body, 'k');
  const [{ workflowId }] = started as [StartedWorkflow];
  const failed: RunEventBody = {
    type: 'run-finished',
    outcome: { state: 'failed', output: null, failure: null, failedStage: null, tolerated: [] },
  };
  await stores.events.append(workflowId, [{ id: 'end', atMs: 1, body: failed }]);
  const again = await post('actions', body, 'k');
  expect([first.status, again.status]).toEqual([200, 200]);
  expect(again.json).toEqual(first.json);
  expect(first.json).toMatchObject({ results: [{ runId: 'sales-bad', outcome: 'done', startedRunId: workflowId }] });
  expect(started).toHaveLength(1);
  const other = await post('actions', { ...body, action: 'cancel' }, 'k');
  expect([other.status, other.json.code]).toEqual([409, 'api/key-reused']);
});

test.each([
  ['two sources', { spec: OTHER, plan: {} }, 400, 'api/invalid-request'],
  ['no source', {}, 400, 'api/invalid-request'],
  ['a key of starts only', { spec: OTHER, mock: 'all' }, 400, 'api/invalid-request'],
  ['mistakes', { spec: 'kind: nothing' }, 422, 'spec/invalid'],
  ['a difference before its first stage', { spec: OTHER, from: 'report' }, 400, 'origin/differs'],
  ['a stage that does not exist', { spec: OTHER, from: 'nothing' }, 400, 'cli/usage'],
])('a fork with %s is refused, and nothing is left', async (_what, change, status, code) => {
  const before = readdirSync(join(dir, 'state', 'runs'));
  const answer = await post('sales-bad/fork', { baseDir: dir, ...change });
  expect([answer.status, answer.json.code]).toEqual([status, code]);
  expect(started).toEqual([]);
  expect(readdirSync(join(dir, 'state', 'runs'))).toEqual(before);
});

test('a fork of an unknown run is refused', async () => {
  expect(await post('nothing/fork', { spec: OTHER, baseDir: dir })).toMatchObject({
    status: 404,
    json: { code: 'api/no-run' },
  });
});
