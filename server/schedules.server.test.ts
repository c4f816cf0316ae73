/** Schedules of deployments on a real server of Temporal, from the row to a start, with a worker and the HTTP API. */
import { linkSync } from 'node:fs';
import { join } from 'node:path';
import { ScheduleNotFoundError } from '@temporalio/client';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { createEvaluateDelivery } from '../app/deliveries/evaluate-delivery.ts';
import { startPump } from '../app/deliveries/pump.ts';
import { compareSchedules, createTurns, type Repairs } from '../app/schedules/compare-schedules.ts';
import { createScheduleServer, type ScheduleServer } from '../client/schedules/schedule-server.ts';
import { nameSchedule } from '../client/schedules/schedule-options.ts';
import { ServiceClient } from '../http/service-client.ts';
import type { ScheduleSource, Trigger } from '../domain/delivery/trigger.ts';
import { evaluateTrigger } from '../domain/language/expression/evaluate-trigger.ts';
import { createMockBackend } from '../sandbox/mock/backend.ts';
import type { AccessStore } from '../store/access.ts';
import type { DeliveryRow } from '../store/triggers.ts';
import { makeVersion } from '../test/conformance/deployments.ts';
import { makeSchedule } from '../test/conformance/schedules.ts';
import { createMemoryAccess } from '../test/rig/access/memory-access.ts';
import { temporalCliForTests } from '../test/rig/servers/temporal-cli.ts';
import { startTestApi, type TestApi } from '../test/rig/servers/test-api.ts';
import { startTestStack, type TestStack } from '../test/rig/servers/test-worker.ts';
import type { RunningWorkers } from '../workers/workers.ts';

let stack: TestStack;
let server: ScheduleServer;
let worker: RunningWorkers | null = null;
let access: AccessStore;
let api: TestApi;
let client: ServiceClient;
let owner: string;

beforeAll(async () => {
  stack = await startTestStack(createMockBackend(), await temporalCliForTests());
  const { client: temporal } = stack.runs;
  server = createScheduleServer({ briefly: async (call) => await call(temporal) });
  // One store for all tests: each has a deployment of its own.
  access = createMemoryAccess();
  owner = await access.triggers.schedules.findOwner();
  api = await startTestApi({
    stateDir: stack.stateDir,
    stores: stack.stores,
    access,
    schedules: { openServer: () => Promise.resolve(server), wake: () => undefined, settle },
  });
  client = new ServiceClient({ name: 'the test', place: { kind: 'unix', path: api.socket }, token: null, ca: null });
}, 300_000);

afterAll(async () => {
  await stopWorker();
  client?.close();
  await api?.close();
  await stack?.stop();
});

let deployment = '';
beforeEach(({ task }) => {
  deployment = `d-${task.id.replaceAll(/\W/g, '')}`;
});

async function startWorker(): Promise<void> {
  worker ??= await stack.startWorker();
}

async function stopWorker(): Promise<void> {
  worker?.shutdown();
  await worker?.ended;
  await worker?.close();
  worker = null;
}

async function settle(): Promise<void> {
  await compareSchedules(access.triggers, server, { known: new Map() });
}

async function compare(isWhole = false): Promise<Repairs> {
  const turn = isWhole ? { takeTurn: createTurns(9) } : {};
  return await compareSchedules(access.triggers, server, { known: new Map(), deployment, ...turn });
}

async function deploy(...triggers: readonly Trigger[]): Promise<void> {
  const spec = `${deployment} ${JSON.stringify(triggers)}`;
  await access.triggers.deployments.deploy(makeVersion(deployment, { spec, triggers }), { isPaused: false });
}

function every(everyMs: number, changes: Partial<ScheduleSource> = {}): Trigger {
  return makeSchedule({ cron: [], everyMs, timezone: 'UTC', overlap: 'allow', ...changes });
}

async function listRows(): Promise<readonly DeliveryRow[]> {
  return await access.triggers.deliveries.list({ deployment, limit: 999 });
}

function nameIt(trigger = 'nightly'): string {
  return nameSchedule({ owner, deployment, trigger });
}

async function countFired(trigger: string): Promise<number> {
  return Number((await stack.runs.client.workflow.count(`TemporalScheduledById = "${nameIt(trigger)}"`)).count);
}

async function endDeployment(): Promise<void> {
  await access.triggers.deployments.delete(deployment, Date.now());
  // The list of the server is some moments old.
  await expect.poll(async () => (await compare()).put + (await server.list(owner, deployment)).length).toBe(0);
}

function beginPump(): void {
  const pump = startPump({
    openTriggers: () => Promise.resolve(access.triggers),
    evaluate: createEvaluateDelivery({ evaluateTrigger: (question) => Promise.resolve(evaluateTrigger(question)) }),
    start: () => Promise.resolve({ kind: 'started' }),
    cancelRun: () => Promise.resolve(),
    nowMs: Date.now,
    onIdle: () => Promise.resolve(),
    log: () => undefined,
  });
  onTestFinished(() => pump.close());
}

test('times of a schedule become deliveries once each, also those before the service answers', async () => {
  await startWorker();
  await deploy(every(1_000));
  expect(await compare()).toEqual({ put: 1, deleted: 0 });
  expect(await listRows()).toEqual([]);
  // Only now the worker finds the socket: the activity has tried before.
  await expect.poll(() => countFired('nightly'), { timeout: 20_000 }).toBeGreaterThan(0);
  linkSync(api.socket, join(stack.stateDir, 'api.sock'));
  await expect.poll(async () => (await listRows()).length, { timeout: 20_000 }).toBeGreaterThan(3);
  await endDeployment();
  const rows = await listRows();
  const times = rows.map(({ schedule }) => schedule!.atMs);
  expect(new Set(times).size).toBe(times.length);
  expect(times.every((ms) => ms % 1_000 === 0)).toBe(true);
  const [row] = rows as [DeliveryRow];
  const scheduledAt = new Date(row.schedule!.atMs).toISOString();
  expect(row).toMatchObject({ trigger: 'nightly', senderId: scheduledAt, contentType: 'application/json' });
  expect(JSON.parse(Buffer.from((await access.triggers.deliveries.readBody(row.id))!).toString())).toEqual({
    scheduledAt,
    localTime: scheduledAt.replace('.000Z', '+00:00'),
    timezone: 'UTC',
    trigger: 'nightly',
  });
});

test('after the worker was away, `catchup: last` starts no time before the latest one, and `all` starts each', async () => {
  await stopWorker();
  await deploy(every(4_000, { catchup: 'last' }), { ...every(4_000, { catchup: 'all' }), name: 'all' });
  await compare();
  await expect.poll(() => countFired('nightly'), { timeout: 30_000 }).toBeGreaterThan(2);
  await expect.poll(() => countFired('all'), { timeout: 20_000 }).toBeGreaterThan(2);
  const backMs = Date.now();
  await startWorker();
  beginPump();
  const readRows = async (trigger: string, state: string): Promise<readonly number[]> =>
    (await listRows())
      .filter((row) => row.trigger === trigger && row.state === state)
      .map(({ schedule }) => schedule!.atMs);
  // Times after the outage start as usual.
  await expect
    .poll(async () => Math.max(...(await readRows('nightly', 'started'))), { timeout: 20_000 })
    .toBeGreaterThan(backMs);
  await expect.poll(async () => Math.max(...(await readRows('all', 'started')))).toBeGreaterThan(backMs);
  await endDeployment();
  const isOvertaken = (atMs: number): boolean => atMs + 4_000 <= backMs;
  const rows = await listRows();
  const missed = rows.filter(({ trigger, schedule }) => trigger === 'nightly' && isOvertaken(schedule!.atMs));
  expect(missed.length).toBeGreaterThan(1);
  expect(new Set(missed.map(({ code }) => code))).toEqual(new Set(['trigger/missed']));
  expect((await readRows('all', 'started')).filter(isOvertaken).length).toBeGreaterThan(1);
  expect(await readRows('all', 'filtered')).toEqual([]);
});

test('a line of cron has the times of its zone over both changes of the clock, a calendar those of its fields, and a backfill starts each once', async () => {
  await deploy(makeSchedule({ cron: ['30 2 * * *'], timezone: 'Europe/Berlin' }));
  await compare();
  const path = ['deployments', deployment, 'schedules', 'nightly', 'backfill'];
  const backfill = async (
    from: string,
    to: string,
    isDry = false,
  ): Promise<readonly { at: string; local: string }[]> => {
    const body = { json: { from, to, isDry } };
    return ((await client.change({ path, body })) as { times: { at: string; local: string }[] }).times;
  };
  const spring = ['2026-03-28T00:00:00+01:00', '2026-03-31T00:00:00+02:00'] as const;
  expect((await backfill(...spring, true)).map(({ local }) => local)).toEqual([
    '2026-03-28T02:30:00+01:00',
    // The clock has no 02:30 on 29 March.
    '2026-03-30T02:30:00+02:00',
  ]);
  expect(await listRows()).toEqual([]);
  const autumn = ['2026-10-24T02:30:00+02:00', '2026-10-26T02:30:00+01:00'] as const;
  beginPump();
  expect((await backfill(...autumn)).map(({ local }) => local)).toEqual([
    '2026-10-24T02:30:00+02:00',
    // The clock has two 02:30 on 25 October.
    '2026-10-25T02:30:00+01:00',
    '2026-10-26T02:30:00+01:00',
  ]);
  await backfill(...autumn);
  await expect.poll(async () => (await listRows()).filter(({ state }) => state === 'deduplicated').length).toBe(3);
  const others = (await listRows()).filter(({ state }) => state !== 'deduplicated');
  // One runs, and two wait for its end: a person asked for them.
  expect(others.map(({ state }) => state).toSorted()).toEqual(['held', 'held', 'started']);
  await deploy(makeSchedule({ cron: ['0 9 1-7 * 1'], timezone: 'Europe/Berlin' }));
  await compare();
  // All fields of a calendar hold: the first Mondays of months.
  expect((await backfill('2026-02-01T00:00:00Z', '2026-05-31T00:00:00Z', true)).map(({ local }) => local)).toEqual([
    '2026-02-02T09:00:00+01:00',
    '2026-03-02T09:00:00+01:00',
    '2026-04-06T09:00:00+02:00',
    '2026-05-04T09:00:00+02:00',
  ]);
  await expect(backfill(autumn[1], autumn[0])).rejects.toMatchObject({ code: 'api/invalid-request' });
  await endDeployment();
});

test('what another program changes or deletes on the server is repaired, and what no row wants is deleted', async () => {
  const { schedule } = stack.runs.client;
  await deploy(makeSchedule(), makeSchedule({ cron: ['0,30 1-5/2 * * 1-5', '0 0 1 1 *'] }, 'weekly'));
  await deploy(makeSchedule(), makeSchedule({ cron: ['0,30 1-5/2 * * 1-5', '0 9 1-7 * 1'] }, 'weekly'), {
    ...every(3_600_000),
    name: 'hourly',
  });
  await Promise.all([compare(), compare()]);
  await expect.poll(async () => (await server.list(owner, deployment)).length).toBe(3);
  expect(await compare()).toEqual({ put: 0, deleted: 0 });
  await schedule.getHandle(nameIt('hourly')).delete();
  await schedule.getHandle(nameIt()).pause('by hand');
  await schedule.getHandle(nameIt('weekly')).update((before) => ({
    ...before,
    spec: { cronExpressions: ['0 0 * * *'], timezone: 'Europe/Berlin' },
  }));
  const other = nameSchedule({ owner: 'ffffffffffffffff', deployment, trigger: 'nightly' });
  await schedule.create({
    scheduleId: other,
    spec: { intervals: [{ every: '1d' }] },
    action: { type: 'startWorkflow', workflowType: 'none', taskQueue: 'none' },
  });
  await expect
    .poll(async () => (await server.list(owner, deployment)).filter(({ isPaused }) => isPaused).length)
    .toBe(1);
  await expect.poll(async () => (await server.list(owner, deployment)).length).toBe(2);
  expect(await compare()).toEqual({ put: 3, deleted: 0 });
  await expect.poll(() => compare()).toEqual({ put: 0, deleted: 0 });
  // The list of the server contains no policy, no limit and no argument of the workflow.
  expect(await compare(true)).toEqual({ put: 0, deleted: 0 });
  type Change = Parameters<ReturnType<typeof schedule.getHandle>['update']>[0];
  const edits: Readonly<Record<string, Change>> = {
    nightly: (before) => ({ ...before, policies: { ...before.policies, overlap: 'SKIP' } }),
    weekly: (before) => ({ ...before, action: { ...before.action, args: ['other'] } }),
    hourly: (before) => ({ ...before, state: { ...before.state, remainingActions: 1 } }),
  };
  for (const [trigger, edit] of Object.entries(edits)) await schedule.getHandle(nameIt(trigger)).update(edit);
  expect(await compare()).toEqual({ put: 0, deleted: 0 });
  expect(await compare(true)).toEqual({ put: 3, deleted: 0 });
  expect(await compare(true)).toEqual({ put: 0, deleted: 0 });
  expect((await schedule.getHandle(nameIt()).describe()).policies.overlap).toBe('ALLOW_ALL');
  expect((await schedule.getHandle(nameIt()).describe()).state.paused).toBe(false);
  await access.triggers.deployments.enable(deployment, 1, Date.now());
  let deleted = 0;
  // An old list may also lead to a needless put.
  await expect.poll(async () => (deleted += (await compare()).deleted)).toBe(1);
  await expect(schedule.getHandle(nameIt('hourly')).describe()).rejects.toThrow(ScheduleNotFoundError);
  await endDeployment();
  // A schedule of another database stays.
  await schedule.getHandle(other).describe();
  await schedule.getHandle(other).delete();
});

test('a pause reaches the server with its note, a second version keeps it, and a resume ends it', async () => {
  await deploy(every(3_600_000));
  await compare();
  const path = ['deployments', deployment, 'schedules', 'nightly'];
  const paused = await client.change({ path: [...path, 'pause'], body: { json: { note: 'holidays' } } });
  expect(paused).toMatchObject({ isPaused: true, pausedBy: 'schedule', note: 'holidays', next: [] });
  const describe = async () => (await stack.runs.client.schedule.getHandle(nameIt()).describe()).state;
  expect(await describe()).toMatchObject({ paused: true, note: expect.stringMatching(/^holidays \(voidbox /) });
  await deploy(every(7_200_000));
  await compare();
  expect(await describe()).toMatchObject({ paused: true });
  await client.change({ path: [...path, 'resume'] });
  expect(await describe()).toMatchObject({ paused: false });
  await expect
    .poll(async () => ((await client.readJson({ path })) as { next: readonly unknown[] | null }).next?.length)
    .toBe(5);
  await endDeployment();
});
