/** The promises of every store about schedules: pauses, and runs of one schedule. A store's own test file calls these tests. */
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { createDecide } from '../../domain/delivery/decide.ts';
import type { DeliveryKeys } from '../../domain/delivery/delivery.ts';
import { MOST_QUEUED } from '../../domain/delivery/scheduled.ts';
import type { ScheduleSource, Trigger } from '../../domain/delivery/trigger.ts';
import type { AccessStore } from '../../store/access.ts';
import type { DeliveryRow, TriggerStore } from '../../store/triggers.ts';
import { makeDelivery } from './deliveries.ts';
import { makeVersion, WEBHOOK } from './deployments.ts';

export interface ScheduleSubject {
  readonly name: string;
  /** Opens an empty store. */
  open(): Promise<AccessStore>;
}

const NOW_MS = 1_795_996_352_123;
const LEASE_MS = 30_000;
const NO_KEYS: DeliveryKeys = { dedupe: null, debounce: null, batch: null, rate: null, order: null };
const NIGHTLY = { deployment: 'review', trigger: 'nightly' };

export function makeSchedule(changes: Partial<ScheduleSource> = {}, name = 'nightly'): Trigger {
  return {
    ...WEBHOOK,
    name,
    source: {
      kind: 'schedule',
      cron: ['30 2 * * *'],
      everyMs: null,
      timezone: 'Europe/Berlin',
      jitterMs: 0,
      catchup: 'none',
      windowMs: 86_400_000,
      overlap: 'skip',
      ...changes,
    },
  };
}

export function testSchedules({ name, open }: ScheduleSubject): void {
  describe(`schedules ${name}`, () => {
    let triggers: TriggerStore;
    beforeEach(async () => {
      const access = await open();
      triggers = access.triggers;
      onTestFinished(() => access.close());
      await triggers.deployments.deploy(makeVersion('review'), { isPaused: false });
    });
    testPauses(() => triggers);
    testOverlaps(() => triggers);
  });
}

function testPauses(triggers: () => TriggerStore): void {
  test('a schedule stays paused over versions, and no longer than its deployment', async () => {
    const { schedules, deployments } = triggers();
    expect(await schedules.pause({ ...NIGHTLY, note: 'a \0 \uD800', pausedAtMs: NOW_MS })).toBe(true);
    expect(await schedules.pause({ ...NIGHTLY, note: 'why', pausedAtMs: NOW_MS + 1 })).toBe(true);
    expect(await schedules.pause({ ...NIGHTLY, deployment: 'none', note: '', pausedAtMs: 1 })).toBe(false);
    await deployments.deploy(makeVersion('review', { spec: 'two' }), { isPaused: false });
    expect(await schedules.listPauses()).toEqual([{ ...NIGHTLY, note: 'why', pausedAtMs: NOW_MS }]);
    await schedules.pause({ ...NIGHTLY, trigger: 'hourly', note: '', pausedAtMs: NOW_MS });
    expect((await schedules.listPauses()).map(({ trigger }) => trigger)).toEqual(['hourly', 'nightly']);
    expect([await schedules.resume(NIGHTLY), await schedules.resume(NIGHTLY)]).toEqual([true, false]);
    await deployments.delete('review', NOW_MS + 2);
    expect(await schedules.listPauses()).toEqual([]);
    expect(await schedules.pause({ ...NIGHTLY, note: '', pausedAtMs: NOW_MS })).toBe(false);
  });

  test('the owner of schedules is the same at each question', async () => {
    const owner = await triggers().schedules.findOwner();
    expect(owner).toMatch(/^[0-9a-f]{16}$/);
    expect(await triggers().schedules.findOwner()).toBe(owner);
  });
}

interface Asked {
  readonly atMs: number;
  readonly isAsked?: boolean;
}

async function decideAt(
  triggers: TriggerStore,
  { id }: Pick<DeliveryRow, 'id'>,
  trigger: Trigger,
  nowMs = NOW_MS,
): Promise<DeliveryRow> {
  await triggers.deliveries.claim({ token: 'a', nowMs, leaseMs: LEASE_MS, limit: 999 });
  const evaluation = { holds: true, params: {}, input: null, keys: NO_KEYS };
  const decide = createDecide({ trigger, evaluation });
  return (await triggers.deliveries.decide({
    id,
    token: 'a',
    nowMs,
    leaseMs: LEASE_MS,
    trigger,
    keys: NO_KEYS,
    decide,
  }))!;
}

async function accept({ deliveries }: TriggerStore, { atMs, isAsked = false }: Asked): Promise<DeliveryRow> {
  const schedule = { atMs, isAsked, isOvertaken: false };
  return (await deliveries.accept(makeDelivery({ ...NIGHTLY, schedule }))).delivery;
}

async function start(triggers: TriggerStore, trigger: Trigger, atMs: number): Promise<DeliveryRow> {
  const row = await accept(triggers, { atMs });
  expect(await decideAt(triggers, row, trigger)).toMatchObject({ state: 'starting' });
  return (await triggers.deliveries.record({ id: row.id, token: 'a' }, { kind: 'started' }, NOW_MS))!;
}

function testOverlaps(triggers: () => TriggerStore): void {
  test('a delivery keeps the time of its schedule', async () => {
    const schedule = { atMs: NOW_MS - 5, isOvertaken: true, isAsked: true };
    const { delivery } = await triggers().deliveries.accept(makeDelivery({ ...NIGHTLY, schedule }));
    expect(delivery.schedule).toEqual(schedule);
    expect(await triggers().deliveries.find(delivery.id)).toMatchObject({ schedule });
  });

  test('a time is skipped while a run of its schedule is open, and another schedule is not', async () => {
    const skip = makeSchedule({ overlap: 'skip' });
    const run = await start(triggers(), skip, NOW_MS - 3);
    const next = await accept(triggers(), { atMs: NOW_MS - 2 });
    expect(await decideAt(triggers(), next, skip)).toMatchObject({ state: 'filtered', code: 'trigger/overlap' });
    const schedule = { atMs: NOW_MS, isAsked: false, isOvertaken: false };
    const other = await triggers().deliveries.accept(makeDelivery({ ...NIGHTLY, trigger: 'hourly', schedule }));
    expect(await decideAt(triggers(), other.delivery, makeSchedule({}, 'hourly'))).toMatchObject({ state: 'starting' });
    expect(await triggers().deliveries.findOldestRun(NIGHTLY)).toBe(run.runId);
    await triggers().deliveries.recordRunEnd({ id: run.id, event: null, nowMs: NOW_MS, createId: () => 'x' });
    expect(await triggers().deliveries.findOldestRun(NIGHTLY)).toBeNull();
    const last = await accept(triggers(), { atMs: NOW_MS - 1 });
    expect(await decideAt(triggers(), last, skip)).toMatchObject({ state: 'starting' });
  });

  test('times wait for the end of a run, in their own order', async () => {
    const queue = makeSchedule({ overlap: 'queue' });
    const run = await start(triggers(), queue, NOW_MS - 9);
    const late = await accept(triggers(), { atMs: NOW_MS - 7 });
    const early = await accept(triggers(), { atMs: NOW_MS - 8 });
    for (const row of [late, early])
      expect(await decideAt(triggers(), row, queue)).toMatchObject({ state: 'held', hold: 'overlap' });
    await triggers().deliveries.recordRunEnd({ id: run.id, event: null, nowMs: NOW_MS + 1, createId: () => 'x' });
    expect(await triggers().deliveries.find(early.id)).toMatchObject({ dueAtMs: NOW_MS + 1 });
    expect((await triggers().deliveries.find(late.id))!.dueAtMs).toBeGreaterThan(NOW_MS + 1);
    const latest = await accept(triggers(), { atMs: NOW_MS - 6 });
    expect(await decideAt(triggers(), latest, queue, NOW_MS + 1)).toMatchObject({ hold: 'overlap' });
    expect(await decideAt(triggers(), early, queue, NOW_MS + 1)).toMatchObject({ state: 'starting' });
  });

  test('a paused schedule drops its times, and not those that a person asks for', async () => {
    await triggers().schedules.pause({ ...NIGHTLY, note: '', pausedAtMs: NOW_MS });
    const fired = await accept(triggers(), { atMs: NOW_MS });
    const dropped = await decideAt(triggers(), fired, makeSchedule());
    expect(dropped).toMatchObject({ state: 'filtered', code: 'trigger/paused', ownsKey: false });
    const asked = await accept(triggers(), { atMs: NOW_MS, isAsked: true });
    expect(await decideAt(triggers(), asked, makeSchedule())).toMatchObject({ state: 'starting' });
  });

  test('a schedule has a limited number of deliveries that wait', async () => {
    const queue = makeSchedule({ overlap: 'queue' });
    await start(triggers(), queue, NOW_MS - 1_000);
    const rows: DeliveryRow[] = [];
    for (let at = 0; at <= MOST_QUEUED; at += 1) rows.push(await accept(triggers(), { atMs: NOW_MS - 900 + at }));
    for (const row of rows) await decideAt(triggers(), row, queue);
    const [last, over] = rows.slice(-2);
    expect(await triggers().deliveries.find(last!.id)).toMatchObject({ hold: 'overlap' });
    expect(await triggers().deliveries.find(over!.id)).toMatchObject({ state: 'filtered', code: 'trigger/overlap' });
  });
}
