import { beforeEach, expect, test } from 'vitest';
import type { TriggerStore } from '../../store/triggers.ts';
import { makeVersion } from '../../test/conformance/deployments.ts';
import { makeSchedule } from '../../test/conformance/schedules.ts';
import { createMemoryTriggers } from '../../test/rig/access/memory-triggers.ts';
import { createMemoryScheduleServer, type MemoryScheduleServer } from '../../test/rig/servers/memory-schedules.ts';
import { compareSchedules, createTurns, type KnownVersions, type TakeTurn } from './compare-schedules.ts';

const EVERY = makeSchedule({ cron: [], everyMs: 60_000, timezone: 'UTC' });
const ID = 'voidbox/00112233445566ff/report/nightly';

let rows: TriggerStore;
let server: MemoryScheduleServer;
let known: KnownVersions;
beforeEach(async () => {
  rows = createMemoryTriggers();
  server = createMemoryScheduleServer();
  known = new Map();
  await rows.deployments.deploy(makeVersion('report', { triggers: [EVERY] }), { isPaused: false });
});

const compare = (takeTurn?: TakeTurn) =>
  compareSchedules(rows, server, { known, ...(takeTurn === undefined ? {} : { takeTurn }) });

test('a schedule without a difference stays as it is, and costs one list', async () => {
  expect(await compare()).toEqual({ put: 1, deleted: 0 });
  server.calls.length = 0;
  expect(await compare()).toEqual({ put: 0, deleted: 0 });
  expect(server.calls).toEqual(['list']);
});

test('a server that has lost its schedules gets them again, with their pauses', async () => {
  await rows.schedules.pause({ deployment: 'report', trigger: 'nightly', note: 'why', pausedAtMs: 1 });
  await compare();
  server.kept.clear();
  expect(await compare()).toEqual({ put: 1, deleted: 0 });
  expect(server.kept.get(ID)).toMatchObject({ isPaused: true, note: 'why' });
});

test('a pause of the deployment and one of the schedule each pause it, and both must end', async () => {
  await rows.deployments.pause('report', 'hold', 1);
  await rows.schedules.pause({ deployment: 'report', trigger: 'nightly', note: 'why', pausedAtMs: 1 });
  const isPaused = async (): Promise<boolean | undefined> => {
    await compare();
    return server.kept.get(ID)?.isPaused;
  };
  expect(await isPaused()).toBe(true);
  await rows.deployments.resume('report', 2);
  expect(await isPaused()).toBe(true);
  await rows.schedules.resume({ deployment: 'report', trigger: 'nightly' });
  expect(await isPaused()).toBe(false);
});

test('a change of a rule that only the service applies reaches the server with its window', async () => {
  await compare();
  const changed = makeSchedule({ cron: [], everyMs: 60_000, timezone: 'UTC', catchup: 'all', windowMs: 3_600_000 });
  await rows.deployments.deploy(makeVersion('report', { spec: 'two', triggers: [changed] }), { isPaused: false });
  expect(await compare()).toEqual({ put: 1, deleted: 0 });
  expect(server.kept.get(ID)).toMatchObject({ source: { catchup: 'all' } });
});

test('a trigger that is removed, a rollback and a deletion each leave no schedule behind', async () => {
  const hourly = { ...EVERY, name: 'hourly' };
  await rows.deployments.deploy(makeVersion('report', { spec: 'two', triggers: [hourly] }), { isPaused: false });
  await compare();
  expect([...server.kept.keys()]).toEqual(['voidbox/00112233445566ff/report/hourly']);
  await rows.deployments.enable('report', 1, 2);
  expect(await compare()).toEqual({ put: 1, deleted: 1 });
  expect([...server.kept.keys()]).toEqual([ID]);
  await rows.deployments.delete('report', 3);
  expect(await compare()).toEqual({ put: 0, deleted: 1 });
});

test('a row that another service changes during the comparison is compared again', async () => {
  const put = server.put.bind(server);
  let isFirst = true;
  server.put = async (wanted) => {
    if (isFirst) await rows.deployments.pause('report', 'hold', 5);
    isFirst = false;
    await put(wanted);
  };
  await compare();
  expect(server.kept.get(ID)).toMatchObject({ isPaused: true });
});

test('a process that dies between the row and the server leaves work for the next comparison', async () => {
  const put = server.put.bind(server);
  server.put = () => Promise.reject(new Error('the process died'));
  await expect(compare()).rejects.toThrow('died');
  server.put = put;
  expect(await compare()).toEqual({ put: 1, deleted: 0 });
});

test('a change by hand of what the list does not contain is repaired, some schedules at each look', async () => {
  const names = ['a', 'b', 'c', 'd', 'e'];
  const triggers = names.map((name) => ({ ...EVERY, name }));
  await rows.deployments.deploy(makeVersion('report', { spec: 'many', triggers }), { isPaused: false });
  await compare();
  for (const id of server.kept.keys()) server.edited.add(id);
  server.calls.length = 0;
  expect(await compare()).toEqual({ put: 0, deleted: 0 });
  const takeTurn = createTurns(2);
  const repaired: number[] = [];
  for (let look = 0; look < 4; look += 1) repaired.push((await compare(takeTurn)).put);
  expect(repaired).toEqual([2, 2, 1, 0]);
  const described = server.calls.filter((call) => call.startsWith('describe')).map((call) => call.at(-1));
  expect(described).toEqual(['a', 'b', 'c', 'd', 'e', 'a', 'b', 'c']);
});

test.each([
  ['an empty list', [], []],
  ['fewer ids than a turn has', ['b', 'a'], ['a', 'b']],
])('a turn of %s has each id once', (_what, ids, turn) => {
  const takeTurn = createTurns(3);
  expect([takeTurn(ids), takeTurn(ids)]).toEqual([turn, turn]);
});
