/** The routes of schedules: the callers that may use them, and the requests that they refuse. */
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { MOST_NOTE_BYTES } from '../app/schedules/manage-schedules.ts';
import { MOST_TIMES } from '../client/schedules/schedule-server.ts';
import type { Scope } from '../domain/access/scopes.ts';
import type { Trigger } from '../domain/delivery/trigger.ts';
import type { AccessStore } from '../store/access.ts';
import { makeVersion, WEBHOOK } from '../test/conformance/deployments.ts';
import { createToken } from '../app/access/tokens.ts';
import { openUploads } from '../store/open-uploads.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { createApi } from './api.ts';
import { API_LIMITS } from './limits.ts';
import { makeSchedule } from '../test/conformance/schedules.ts';
import { createMemoryAccess } from '../test/rig/access/memory-access.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createMemoryScheduleServer, type MemoryScheduleServer } from '../test/rig/servers/memory-schedules.ts';
import { startTestApi } from '../test/rig/servers/test-api.ts';
import { ServiceClient } from '../http/service-client.ts';

const NOW_MS = Date.UTC(2026, 9, 25, 12);
const PATH = ['deployments', 'report', 'schedules', 'nightly'];
const EVERY: Trigger = makeSchedule({ cron: [], everyMs: 3_600_000, timezone: 'UTC' });

let access: AccessStore;
let server: MemoryScheduleServer;
let client: ServiceClient;
let isAway: boolean;
beforeEach(async () => {
  access = createMemoryAccess();
  server = createMemoryScheduleServer();
  isAway = false;
  await access.triggers.deployments.deploy(makeVersion('report', { triggers: [EVERY, WEBHOOK] }), { isPaused: false });
  const api = await startTestApi({
    stateDir: '/nowhere/state',
    stores: openMemoryStores(new MemoryPlace()),
    access,
    machine: { now: () => new Date(NOW_MS) },
    schedules: {
      openServer: () => (isAway ? Promise.reject(new Error('away')) : Promise.resolve(server)),
      wake: () => undefined,
      settle: () => Promise.resolve(),
    },
  });
  client = new ServiceClient({ name: 'the test', place: { kind: 'unix', path: api.socket }, token: null, ca: null });
  onTestFinished(async () => {
    client.close();
    await api.close();
  });
});

test('a list of many schedules asks the database as often as a list of few', async () => {
  const { deployments, deliveries } = access.triggers;
  const names = Array.from({ length: 40 }, (_, at) => `many-${at}`);
  for (const name of names)
    await deployments.deploy(makeVersion(name, { triggers: [EVERY], spec: name }), { isPaused: false });
  const calls = [
    vi.spyOn(deployments, 'findVersion'),
    vi.spyOn(deployments, 'findVersions'),
    vi.spyOn(deliveries, 'list'),
    vi.spyOn(deliveries, 'listLatest'),
  ];
  const { schedules } = (await client.readJson({ path: ['schedules'] })) as { schedules: readonly unknown[] };
  expect([schedules.length, calls.map(({ mock }) => mock.calls.length)]).toEqual([41, [0, 1, 0, 1]]);
});

const readRows = () => access.triggers.deliveries.list({ limit: 2_000 });

test('a list shows schedules only, also while the server of Temporal is away', async () => {
  isAway = true;
  const { schedules } = (await client.readJson({ path: ['schedules'] })) as { schedules: readonly unknown[] };
  expect(schedules).toEqual([
    expect.objectContaining({ deployment: 'report', trigger: 'nightly', next: null, last: null, isPaused: false }),
  ]);
});

test('a start by a person is a delivery of this moment, and two of them are two', async () => {
  const asked = (await client.change({ path: [...PATH, 'trigger'] })) as { delivery: string; runId: string };
  expect(asked.runId).toBe(`report-${asked.delivery}`);
  await client.change({ path: [...PATH, 'trigger'] });
  const rows = await readRows();
  expect(rows.map(({ schedule }) => schedule)).toEqual(
    [1, 2].map(() => ({ atMs: NOW_MS, isOvertaken: false, isAsked: true })),
  );
  expect(new Set(rows.map(({ senderId }) => senderId)).size).toBe(2);
});

test('a backfill has the first and the last time of its range, and at most 999', async () => {
  server.times = Array.from({ length: MOST_TIMES }, (_, index) => NOW_MS - (index + 1) * 1_000).toReversed();
  const [first, second] = server.times as [number, number];
  const write = (ms: number): string => new Date(ms).toISOString();
  const backfill = async (from: number, to = NOW_MS): Promise<readonly unknown[]> => {
    const body = { json: { from: write(from), to: write(to) } };
    return ((await client.change({ path: [...PATH, 'backfill'], body })) as { times: unknown[] }).times;
  };
  await expect(backfill(first)).rejects.toMatchObject({ message: expect.stringContaining('1000 times') });
  expect(await backfill(second)).toHaveLength(MOST_TIMES - 1);
  expect(await readRows()).toHaveLength(MOST_TIMES - 1);
  expect(await backfill(second, second)).toHaveLength(1);
  await expect(backfill(second, NOW_MS + 1)).rejects.toMatchObject({ message: expect.stringContaining('future') });
  await expect(backfill(second, first)).rejects.toMatchObject({ message: expect.stringContaining('later') });
});

test('a note has at most so many bytes', async () => {
  const pause = (note: string) => client.change({ path: [...PATH, 'pause'], body: { json: { note } } });
  expect(await pause('a'.repeat(MOST_NOTE_BYTES))).toMatchObject({ isPaused: true });
  await expect(pause('a'.repeat(MOST_NOTE_BYTES + 1))).rejects.toMatchObject({ code: 'api/invalid-request' });
});

test.each([
  ['GET', []],
  ['POST', ['trigger']],
  ['POST', ['resume']],
] as const)('%s %j of a trigger that is no schedule is refused', async (method, verb) => {
  const path = ['deployments', 'report', 'schedules', 'push', ...verb];
  const asked = method === 'GET' ? client.readJson({ path }) : client.change({ path });
  await expect(asked).rejects.toMatchObject({ code: 'api/no-schedule' });
});

test('a worker hands over a time, which is one delivery, and a stale one starts nothing', async () => {
  const owner = await access.triggers.schedules.findOwner();
  const body = { json: { owner, atMs: NOW_MS, firedAtMs: NOW_MS, firing: 'one' } };
  const first = await client.change({ path: [...PATH, 'times'], body });
  expect(await client.change({ path: [...PATH, 'times'], body })).toEqual(first);
  expect(await readRows()).toHaveLength(1);
  const stale = ['deployments', 'report', 'schedules', 'none', 'times'];
  expect(await client.change({ path: stale, body })).toEqual({ delivery: null });
});

interface AskedByToken {
  readonly scopes: readonly Scope[];
  readonly runs?: readonly string[];
}

let tokens = 0;

/** Returns the status and the code of the answer. */
async function askByToken(path: string, body: object, { scopes, runs = [] }: AskedByToken): Promise<string> {
  const over = createApi({
    machine: createTestMachine(openMemoryStores(new MemoryPlace()), { now: () => new Date(NOW_MS) }),
    uploads: openUploads({ stateDir: '/nowhere/state' }),
    access: () => Promise.resolve(access),
    version: '1.2.3',
    limits: API_LIMITS,
    log: () => undefined,
  });
  tokens += 1;
  const asked = { name: `t${tokens}`, scopes: [...scopes], runs: [...runs], groups: [], allowGit: [], lifeMs: 60_000 };
  const { text } = await createToken(asked, { tokens: access.tokens, nowMs: NOW_MS });
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${text}` };
  const response = await over.request(
    `/api/v1/${PATH.join('/')}/${path}`,
    { method: 'POST', headers, body: JSON.stringify(body) },
    { connection: { listener: 'tcp', address: '192.0.2.7', end: () => undefined } },
  );
  const { code = '' } = (await response.json()) as { readonly code?: string };
  return `${response.status} ${code}`.trimEnd();
}

test('a token hands over no time, whatever its scopes are', async () => {
  const owner = await access.triggers.schedules.findOwner();
  const body = { owner, atMs: NOW_MS, firedAtMs: NOW_MS, firing: 'one' };
  expect(await askByToken('times', body, { scopes: ['admin', 'run', 'read', 'approve'] })).toBe('403 api/not-allowed');
  expect(await readRows()).toEqual([]);
});

test('a token starts and pauses by its scope, and only a deployment whose runs it may see', async () => {
  expect(await askByToken('trigger', {}, { scopes: ['read'] })).toBe('403 api/not-allowed');
  expect(await askByToken('trigger', {}, { scopes: ['run'], runs: ['other-*'] })).toBe('403 api/not-allowed');
  expect(await askByToken('trigger', {}, { scopes: ['run'], runs: ['report-*'] })).toBe('202');
  expect(await askByToken('pause', {}, { scopes: ['run'] })).toBe('403 api/not-allowed');
  expect(await askByToken('pause', {}, { scopes: ['admin'], runs: ['other-*'] })).toBe('403 api/not-allowed');
  expect(await askByToken('pause', {}, { scopes: ['admin'] })).toBe('200');
});
