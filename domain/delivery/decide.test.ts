/** The machine of deliveries, with processes that die at any step. Each seed makes the same events. */
import { describe, expect, test } from 'vitest';
import { WEBHOOK } from '../../test/conformance/deployments.ts';
import { makeDelivery } from '../../test/conformance/deliveries.ts';
import { createMemoryDeliveries } from '../../test/rig/access/memory-deliveries.ts';
import type { DeliveryRow, DeliveryStore } from '../../store/triggers.ts';
import { createDecide } from './decide.ts';
import { type DeliveryKeys, isOpenDelivery, MOST_OPEN_RUNS } from './delivery.ts';
import type { Trigger } from './trigger.ts';

/** A sequence of numbers from 0 to 1 that follows from its seed. */
function makeRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface World {
  readonly store: DeliveryStore;
  readonly trigger: Trigger;
  readonly random: () => number;
  readonly accepted: DeliveryRow[];
  /** Ids of runs in the order of their starts. A run starts once, however often it is asked for. */
  readonly runs: Set<string>;
  readonly ended: Set<string>;
  nowMs: number;
  pumps: number;
}

const LEASE_MS = 30_000;

function makeWorld(seed: number, trigger: Partial<Trigger>): World {
  return {
    store: createMemoryDeliveries({
      readPause: () => Promise.resolve({ pause: null, isDeleted: false }),
      listFollowers: () => Promise.resolve([]),
      listLinks: () => Promise.resolve([]),
    }),
    trigger: { ...WEBHOOK, ...trigger },
    random: makeRandom(seed),
    accepted: [],
    runs: new Set(),
    ended: new Set(),
    nowMs: 1_000_000,
    pumps: 0,
  };
}

/** The key of a delivery is its sender's id, and its group the first letter of that. */
function makeKeys({ senderId }: DeliveryRow, { debounce, batch, rate, order }: Trigger): DeliveryKeys {
  const group = senderId!.slice(0, 1);
  return {
    dedupe: senderId,
    debounce: debounce === null ? null : group,
    batch: batch === null ? null : group,
    rate: rate === null ? null : '',
    order: order === null ? null : group,
  };
}

async function accept(world: World, senderId: string): Promise<void> {
  const { delivery } = await world.store.accept(makeDelivery({ senderId, acceptedAtMs: world.nowMs }));
  world.accepted.push(delivery);
}

/** A process that may die after each of its steps, and that may fail to start a run or not hear of the start. */
async function pump(world: World, deaths: number): Promise<void> {
  const { store, trigger, random, nowMs } = world;
  const token = `pump-${(world.pumps += 1)}`;
  const dies = (): boolean => random() < deaths;
  for (const row of await store.claim({ token, nowMs, leaseMs: LEASE_MS, limit: 1 + Math.floor(random() * 5) })) {
    if (dies()) return;
    const keys = makeKeys(row, trigger);
    const evaluation = { holds: !row.senderId!.endsWith('no'), params: {}, input: null, keys };
    const decide = createDecide({ trigger, evaluation });
    const decided = await store.decide({ id: row.id, token, nowMs, leaseMs: LEASE_MS, trigger, keys, decide });
    if (dies()) return;
    if (decided?.state !== 'starting') continue;
    const isLost = dies();
    if (!isLost || random() < 0.5) world.runs.add(decided.runId!);
    if (dies()) return;
    await store.record(
      { id: row.id, token },
      isLost ? { kind: 'failed', code: 'api/bug', message: 'no answer' } : { kind: 'started' },
      nowMs,
    );
  }
  const open = await store.listOpenRuns(999);
  expect(open.length).toBeLessThanOrEqual(MOST_OPEN_RUNS);
  const ends = open.filter(() => random() < 0.3).map(({ id }) => id);
  for (const id of ends) await store.recordRunEnd({ id, event: null, nowMs, createId: () => '' });
}

/** Lets time pass until every delivery has its outcome. */
async function settle(world: World, deaths: number): Promise<readonly DeliveryRow[]> {
  for (let rounds = 0; rounds < 20_000; rounds += 1) {
    const dueMs = await world.store.findNextDue(world.nowMs);
    if (dueMs === null) return (await world.store.list({ limit: 9_999 })).toReversed();
    world.nowMs = Math.max(world.nowMs, dueMs);
    await pump(world, deaths);
  }
  throw new Error('deliveries are open after 20,000 rounds');
}

const TRIGGERS: readonly (readonly [string, Partial<Trigger>])[] = [
  ['no other key', {}],
  ['an order', { order: { key: 'x' } }],
  ['a rate', { rate: { key: null, limit: 3, perMs: 10_000, onLimit: 'hold' } }],
  ['a rate that drops', { rate: { key: null, limit: 3, perMs: 10_000, onLimit: 'drop' } }],
  ['a batch', { batch: { key: 'x', size: 4, timeoutMs: 5_000 } }],
  ['a debounce of the first', { debounce: { key: 'x', delayMs: 2_000, maxDelayMs: 9_000, take: 'first' } }],
  [
    'a debounce of the last, a rate and an order',
    {
      debounce: { key: 'x', delayMs: 2_000, maxDelayMs: 9_000, take: 'last' },
      rate: { key: null, limit: 5, perMs: 1_000, onLimit: 'hold' },
      order: { key: 'x' },
    },
  ],
];

const SEEDS = [1, 2, 3, 4, 5, 6];

describe.each(TRIGGERS)('with %s', (_what, change) => {
  test.each(SEEDS)('each delivery has one outcome and each key one run, with seed %i', async (seed) => {
    const world = makeWorld(seed, change);
    for (let index = 0; index < 60; index += 1) {
      world.nowMs += Math.floor(world.random() * 1_500);
      const name = `${'abc'.charAt(Math.floor(world.random() * 3))}${Math.floor(world.random() * 25)}`;
      await accept(world, world.random() < 0.1 ? `${name}no` : name);
      if (world.random() < 0.5) await pump(world, 0.1);
    }
    const rows = await settle(world, 0.1);
    expect(rows.filter(({ state }) => isOpenDelivery(state))).toEqual([]);
    expect(rows).toHaveLength(world.accepted.length);
    checkRuns(world, rows);
    checkKeys(world, rows);
    checkLeaders(world, rows);
    if (world.trigger.order !== null) checkOrder(world, rows);
  });
});

/** Each started delivery has its run, and only a delivery whose tries failed can have one that it does not know. */
function checkRuns({ runs }: World, rows: readonly DeliveryRow[]): void {
  const started = rows.filter(({ state }) => state === 'started').map(({ runId }) => runId!);
  const failed = rows.filter(({ state }) => state === 'failed').map(({ runId }) => runId!);
  for (const runId of started) expect(runs).toContain(runId);
  for (const runId of runs) expect([...started, ...failed]).toContain(runId);
  expect(new Set(started).size).toBe(started.length);
}

function checkKeys({ trigger }: World, rows: readonly DeliveryRow[]): void {
  const keys = new Set(rows.map(({ senderId }) => senderId!));
  for (const key of keys) {
    const ofKey = rows.filter(({ senderId }) => senderId === key);
    const states = ofKey.map(({ state }) => state);
    const effects = states.filter((state) => state === 'started' || state === 'merged' || state === 'failed').length;
    const isFiltered = key.endsWith('no') && states.every((state) => state === 'filtered');
    const isDropped = trigger.rate?.onLimit === 'drop' && effects === 0;
    expect([key, effects]).toEqual([key, isFiltered || isDropped ? 0 : 1]);
  }
  const byId = new Map(rows.map((row) => [row.id, row]));
  const targetsOf = (state: DeliveryRow['state']): readonly DeliveryRow['state'][] =>
    rows.filter((row) => row.state === state).map(({ into }) => byId.get(into!)!.state);
  // A merged delivery names the delivery whose run replaces it, however many were between them.
  for (const state of targetsOf('merged')) expect(['started', 'failed']).toContain(state);
  for (const state of targetsOf('deduplicated')) expect(['started', 'merged', 'failed', 'filtered']).toContain(state);
}

/** The first delivery of a group starts its run, or the latest one, in whichever order they were decided. */
function checkLeaders({ trigger }: World, rows: readonly DeliveryRow[]): void {
  const byId = new Map(rows.map((row) => [row.id, row]));
  const takesLast = trigger.debounce?.take === 'last';
  const merged = rows.filter(({ state }) => state === 'merged');
  for (const { into, seq } of merged) expect(byId.get(into!)!.seq > seq).toBe(takesLast);
}

test('a delivery that is decided late joins no group that began long after it', async () => {
  const world = makeWorld(11, { debounce: { key: 'x', delayMs: 1_000, maxDelayMs: 5_000, take: 'last' } });
  await accept(world, 'a1');
  // Its process has died.
  await world.store.claim({ token: 'dead', nowMs: world.nowMs, leaseMs: 1_500, limit: 1 });
  world.nowMs += 1_000;
  await accept(world, 'a2');
  const rows = await settle(world, 0);
  expect(rows.map(({ state }) => state)).toEqual(['started', 'started']);
});

function checkOrder({ runs }: World, rows: readonly DeliveryRow[]): void {
  const order = [...runs];
  for (const group of ['a', 'b', 'c']) {
    const started = rows.filter(({ state, senderId }) => state === 'started' && senderId!.startsWith(group));
    const places = started.map(({ runId }) => order.indexOf(runId!));
    expect(places).toEqual(places.toSorted((one, other) => one - other));
  }
}

test('a steady stream starts runs of a debounce at its longest delay', async () => {
  const world = makeWorld(7, { debounce: { key: 'x', delayMs: 1_000, maxDelayMs: 5_000, take: 'last' } });
  const startsAtMs: number[] = [];
  for (let index = 0; index < 120; index += 1) {
    world.nowMs += 250;
    await accept(world, `a${index}`);
    const before = world.runs.size;
    await pump(world, 0);
    await pump(world, 0);
    if (world.runs.size > before) startsAtMs.push(world.nowMs);
  }
  expect(startsAtMs.length).toBeGreaterThanOrEqual(5);
  for (const [index, atMs] of startsAtMs.slice(1).entries())
    expect(atMs - startsAtMs[index]!).toBeLessThanOrEqual(5_500);
});

test('a rate starts no more runs in a period than its limit, and at most twice that around its edge', async () => {
  const world = makeWorld(8, { rate: { key: null, limit: 4, perMs: 1_000, onLimit: 'hold' } });
  for (let index = 0; index < 40; index += 1) await accept(world, `a${index}`);
  const startsAtMs: number[] = [];
  while (world.runs.size < 40) {
    const before = world.runs.size;
    await pump(world, 0);
    for (let count = before; count < world.runs.size; count += 1) startsAtMs.push(world.nowMs);
    world.nowMs = Math.max(world.nowMs, (await world.store.findNextDue(world.nowMs)) ?? 0);
  }
  for (const [index, atMs] of startsAtMs.slice(8).entries())
    expect(atMs - startsAtMs[index]!).toBeGreaterThanOrEqual(1_000);
  expect(startsAtMs.at(-1)! - startsAtMs[0]!).toBe(9_000);
});

test('a delivery expires, and one with a delay waits for it', async () => {
  const world = makeWorld(9, {});
  const { delivery: late } = await world.store.accept(
    makeDelivery({ senderId: 'a1', acceptedAtMs: world.nowMs, expiresAtMs: world.nowMs + 10 }),
  );
  const { delivery: delayed } = await world.store.accept(
    makeDelivery({ senderId: 'a2', acceptedAtMs: world.nowMs, notBeforeMs: world.nowMs + 500 }),
  );
  world.nowMs += 11;
  for (let round = 0; round < 5; round += 1) await pump(world, 0);
  expect(await world.store.find(late.id)).toMatchObject({ state: 'refused', code: 'trigger/expired' });
  expect(await world.store.find(delayed.id)).toMatchObject({ state: 'held', hold: 'delay' });
  world.nowMs += 489;
  await pump(world, 0);
  expect(await world.store.find(delayed.id)).toMatchObject({ state: 'started' });
});

test('a replay is no duplicate and waits for no group and no rate', async () => {
  const world = makeWorld(10, {
    debounce: { key: 'x', delayMs: 1_000, maxDelayMs: 1_000, take: 'last' },
    rate: { key: null, limit: 1, perMs: 60_000, onLimit: 'drop' },
  });
  await accept(world, 'a1');
  await settle(world, 0);
  const keys: DeliveryKeys = { dedupe: 'a1', debounce: 'a', batch: null, rate: '', order: null };
  const { delivery } = await world.store.accept(
    makeDelivery({ senderId: 'a1', acceptedAtMs: world.nowMs, replayOf: world.accepted[0]!.id }),
  );
  await world.store.claim({ token: 't', nowMs: world.nowMs, leaseMs: 1, limit: 9 });
  const { trigger, nowMs } = world;
  const decide = createDecide({ trigger, evaluation: { holds: true, params: {}, input: null, keys } });
  const decided = await world.store.decide({ id: delivery.id, token: 't', nowMs, leaseMs: 1, trigger, keys, decide });
  expect(decided).toMatchObject({ state: 'starting', runId: `review-${delivery.id}` });
});
