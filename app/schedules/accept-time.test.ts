import { beforeEach, expect, test } from 'vitest';
import type { ScheduleSource } from '../../domain/delivery/trigger.ts';
import type { DeliveryRow, TriggerStore } from '../../store/triggers.ts';
import { makeVersion } from '../../test/conformance/deployments.ts';
import { makeSchedule } from '../../test/conformance/schedules.ts';
import { createMemoryTriggers } from '../../test/rig/access/memory-triggers.ts';
import { createMemoryScheduleServer, type MemoryScheduleServer } from '../../test/rig/servers/memory-schedules.ts';
import { acceptFiredTime, type FiredTime } from './accept-time.ts';

const AT_MS = Date.UTC(2026, 9, 25, 1, 30);
const DAY_MS = 86_400_000;

let triggers: TriggerStore;
let server: MemoryScheduleServer;
let nowMs: number;
let fired: FiredTime;
beforeEach(async () => {
  triggers = createMemoryTriggers();
  server = createMemoryScheduleServer();
  nowMs = AT_MS + 200;
  fired = {
    owner: await triggers.schedules.findOwner(),
    deployment: 'report',
    trigger: 'nightly',
    atMs: AT_MS,
    firedAtMs: AT_MS + 100,
    firing: 'one',
  };
});

async function deploy(changes: Partial<ScheduleSource> = {}): Promise<void> {
  const version = makeVersion('report', { spec: JSON.stringify(changes), triggers: [makeSchedule(changes)] });
  await triggers.deployments.deploy(version, { isPaused: false });
}

async function accept(changes: Partial<FiredTime> = {}): Promise<DeliveryRow | null> {
  const tools = { triggers, openServer: () => Promise.resolve(server), nowMs: () => nowMs, wake: () => undefined };
  const id = await acceptFiredTime({ ...fired, ...changes }, tools);
  return id === null ? null : await triggers.deliveries.find(id);
}

test('a repeated call of one firing is one delivery, and another firing of the time has its key', async () => {
  await deploy();
  const first = (await accept())!;
  nowMs += 5_000;
  expect((await accept())!.id).toBe(first.id);
  const second = (await accept({ firing: 'two' }))!;
  expect(second.id).not.toBe(first.id);
  expect([first.senderId, second.senderId]).toEqual(['2026-10-25T01:30:00.000Z', '2026-10-25T01:30:00.000Z']);
  expect(await triggers.deliveries.list({ limit: 9 })).toHaveLength(2);
});

test('a service that was off for a day overtakes each time but the latest', async () => {
  await deploy({ catchup: 'last' });
  server.times = [AT_MS, AT_MS + DAY_MS];
  nowMs = AT_MS + DAY_MS + 60_000;
  expect((await accept())!.schedule).toMatchObject({ isOvertaken: true });
  expect((await accept({ firing: 'two', atMs: AT_MS + DAY_MS }))!.schedule).toMatchObject({ isOvertaken: false });
});

test('a time is overtaken at the moment of the next one', async () => {
  await deploy({ catchup: 'last' });
  server.times = [AT_MS, AT_MS + 60_000];
  nowMs = AT_MS + 59_999;
  expect((await accept())!.schedule).toMatchObject({ isOvertaken: false });
  nowMs = AT_MS + 60_000;
  expect((await accept({ firing: 'two' }))!.schedule).toMatchObject({ isOvertaken: true });
  await deploy({ catchup: 'last', cron: [], everyMs: 60_000, timezone: 'UTC' });
  server.calls.length = 0;
  nowMs = AT_MS + 59_999;
  expect((await accept({ firing: 'three' }))!.schedule).toMatchObject({ isOvertaken: false });
  nowMs = AT_MS + 60_000;
  expect((await accept({ firing: 'four' }))!.schedule).toMatchObject({ isOvertaken: true });
  // An interval needs no question.
  expect(server.calls).toEqual([]);
});

test.each(['none', 'all'] as const)('with `catchup: %s` the server is not asked for later times', async (catchup) => {
  await deploy({ catchup });
  nowMs = AT_MS + DAY_MS;
  expect((await accept())!.schedule).toMatchObject({ isOvertaken: false });
  expect(server.calls).toEqual([]);
});

test('a clock that was set back an hour keeps the time, and one that is further away is refused', async () => {
  await deploy({ catchup: 'last' });
  nowMs = AT_MS + 100 - 3_600_000;
  expect((await accept())!.schedule).toEqual({ atMs: AT_MS, isOvertaken: false, isAsked: false });
  nowMs = AT_MS + 100;
  await expect(accept({ atMs: AT_MS + 3_600_101 })).rejects.toMatchObject({ code: 'api/invalid-request' });
  expect(await accept({ atMs: AT_MS + 3_600_100, firing: 'two' })).not.toBeNull();
});

test('a jitter delays a time by the same part at each delivery', async () => {
  await deploy({ jitterMs: 600_000 });
  const first = (await accept())!;
  expect(first.notBeforeMs).toBeGreaterThan(AT_MS);
  expect(first.notBeforeMs).toBeLessThanOrEqual(AT_MS + 600_000);
  expect((await accept({ firing: 'two' }))!.notBeforeMs).toBe(first.notBeforeMs);
  expect((await accept({ firing: 'three', atMs: AT_MS - DAY_MS }))!.notBeforeMs).not.toBe(first.notBeforeMs! - DAY_MS);
});

test('a schedule that no version has, and one of another database, start nothing', async () => {
  expect(await accept()).toBeNull();
  await deploy();
  expect(await accept({ trigger: 'hourly' })).toBeNull();
  await expect(accept({ owner: 'ffffffffffffffff' })).rejects.toMatchObject({ code: 'api/invalid-request' });
  await triggers.deployments.delete('report', nowMs);
  expect(await accept()).toBeNull();
  expect(await triggers.deliveries.list({ limit: 9 })).toEqual([]);
});
