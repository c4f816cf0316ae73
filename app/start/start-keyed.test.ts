/** Starts with an idempotency key, up to the start of the workflow, which a client of Temporal without a server records. */
import { existsSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { openStores } from '../../store/open-stores.ts';
import { openUploads } from '../../store/open-uploads.ts';
import type { Stores } from '../../store/stores.ts';
import { createStartLink } from '../../test/rig/runs/start-link.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import type { Caller } from '../access/authenticate.ts';
import type { Machine } from '../machine.ts';
import { startKeyed } from './start-keyed.ts';
import type { ClientRequest } from './start-upload.ts';
import { createTokenCaller } from '../../test/rig/access/token-caller.ts';

const SPEC = `kind: workflow
name: shop
sandbox: { mode: mock, isolation: none }
workflow:
  steps:
    - { name: a, run: ls }
`;
const OWNER: Caller = { kind: 'owner' };

let dir: string;
let stores: Stores;
/** Ids of workflows that were started. */
let started: string[];
/** Whether the connection is lost at a start: before the server has the workflow, or after it. */
let lost: 'before' | 'after' | null;

beforeEach(async () => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-start-keyed-')));
  [started, lost] = [[], null];
  stores = await openStores({ stateDir: join(dir, 'state') });
});
afterEach(async () => {
  await stores.close();
  rmSync(dir, { recursive: true, force: true });
});

function openMachine(): Machine {
  const link = createStartLink({
    has: (workflowId) => started.includes(workflowId),
    start({ workflowId }) {
      if (lost === 'before') throw new Error('the server went away');
      started.push(workflowId);
      if (lost === 'after') throw new Error('the server went away');
    },
  });
  return createTestMachine(stores, { env: readTestEnvironment(), stackLink: () => Promise.resolve(link) });
}

function readTestEnvironment(): Machine['env'] {
  return readEnvironment({
    VOIDBOX_STATE_DIR: join(dir, 'state'),
    VOIDBOX_CACHE_DIR: join(dir, 'cache'),
    HOME: dir,
  });
}

async function start(key: string | null, change: Partial<ClientRequest> = {}, caller = OWNER) {
  const request: ClientRequest = {
    spec: SPEC,
    plan: undefined,
    baseDir: dir,
    uploads: {},
    params: {},
    input: null,
    runId: null,
    mock: null,
    mockAgents: false,
    variables: {},
    allowMounts: [],
    allowGit: [],
    ...change,
  };
  const tools = { uploads: openUploads({ stateDir: join(dir, 'state') }), onProgress: () => undefined };
  return await startKeyed(request, { key, caller }, tools, openMachine());
}

function callerOf(name: string, runs: readonly string[] = []): Caller {
  return createTokenCaller({ name, runs });
}

test('requests without a key start a run each', async () => {
  const [one, other] = [await start(null), await start(null)];
  expect(started).toEqual([one.runId, other.runId]);
});

test('the same request with one key starts one run, also at the same time', async () => {
  const all = await Promise.all(Array.from({ length: 5 }, () => start('k')));
  expect(new Set(all.map(({ runId }) => runId)).size).toBe(1);
  expect(all.filter(({ isRepeated }) => !isRepeated)).toHaveLength(1);
  expect(started).toEqual([all[0]!.runId]);
  expect(started[0]).toMatch(/^key-[0-9a-f]{32}$/);
});

test('another request with the key is refused, and other variables are the same request', async () => {
  const { runId } = await start('k', { variables: { KEY: 'secret' } });
  await expect(start('k', { input: 'x' })).rejects.toMatchObject({
    code: 'api/key-reused',
    message: expect.stringContaining(runId) as string,
  });
  expect(await start('k', { variables: { KEY: 'other' } })).toMatchObject({ runId, isRepeated: true });
  expect(JSON.stringify(await stores.records.get(runId, 'request'))).toMatch(/^\{"hash":"[0-9a-f]{64}"\}$/);
});

test('the keys of two starters are different keys', async () => {
  const owner = await start('k');
  const [ci, other] = [
    await start('k', { baseDir: null }, callerOf('ci')),
    await start('k', { baseDir: null }, callerOf('other')),
  ];
  expect(new Set([owner.runId, ci.runId, other.runId]).size).toBe(3);
});

test('a key with an id starts the run of this id', async () => {
  expect(await start('k', { runId: 'mine' })).toMatchObject({ runId: 'mine', isRepeated: false });
  expect(await start('k', { runId: 'mine' })).toMatchObject({ runId: 'mine', isRepeated: true });
  await expect(start('other', { runId: 'mine' })).rejects.toMatchObject({ code: 'api/key-reused' });
});

test('a run that was started without a key is not the one of a key', async () => {
  await start(null, { runId: 'mine' });
  await expect(start('k', { runId: 'mine' })).rejects.toThrow('mine already exists');
  expect(await stores.records.get('mine', 'request')).toBeNull();
});

test('a start that fails before the server has it can be corrected under the same key', async () => {
  await expect(start('k', { spec: 'kind: nothing' })).rejects.toMatchObject({ code: 'spec/invalid' });
  lost = 'before';
  await expect(start('k')).rejects.toThrow('went away');
  lost = null;
  expect(await start('k')).toMatchObject({ isRepeated: false });
  expect(started).toHaveLength(1);
});

test('a start that is refused leaves nothing of its key', async () => {
  await expect(start('k', { spec: 'kind: nothing' })).rejects.toMatchObject({ code: 'spec/invalid' });
  const runs = join(dir, 'state', 'runs');
  expect(existsSync(runs) ? readdirSync(runs) : []).toEqual([]);
});

test('a start whose answer is lost is found by the same request', async () => {
  lost = 'after';
  await expect(start('k')).rejects.toThrow('went away');
  lost = null;
  expect(await start('k')).toMatchObject({ runId: started[0], isRepeated: true });
  expect(started).toHaveLength(1);
});

test('a process that dies before the start leaves a key that the same request continues', async () => {
  const { runId } = await start('k');
  // The record is written first, so it is all that such a process leaves.
  started = [];
  expect(await start('k')).toMatchObject({ runId, isRepeated: false });
  expect(started).toEqual([runId]);
});

test('a key is free for another request, if a process has died before the start', async () => {
  const { runId } = await start('k');
  started = [];
  expect(await start('k', { input: 'x' })).toMatchObject({ runId, isRepeated: false });
  await expect(start('k')).rejects.toMatchObject({ code: 'api/key-reused' });
});

test.each(['', ' ', 'a b', 'ü', 'a'.repeat(256), 'a\n'])('the key %j is refused', async (key) => {
  await expect(start(key)).rejects.toMatchObject({ code: 'api/invalid-request' });
});

test('a key has at most 255 characters', async () => {
  expect(await start('a'.repeat(255))).toMatchObject({ isRepeated: false });
});

test('a token with patterns needs an id that matches one of them', async () => {
  const caller = callerOf('ci', ['ci-*']);
  await expect(start('k', { baseDir: null }, caller)).rejects.toMatchObject({ code: 'api/not-allowed' });
  expect(await start('k', { baseDir: null, runId: 'ci-1' }, caller)).toMatchObject({ runId: 'ci-1' });
});
