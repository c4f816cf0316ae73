/** The promises of every store of deliveries. A store's own test file calls these tests. */
import assert from 'node:assert';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { createDecide } from '../../domain/delivery/decide.ts';
import type { Evaluation } from '../../domain/delivery/decision.ts';
import {
  DELIVERY_KEPT_MS,
  type DeliveryKeys,
  MOST_OPEN_RUNS,
  PAYLOAD_KEPT_MS,
} from '../../domain/delivery/delivery.ts';
import { MOST_TRIES } from '../../domain/delivery/retry.ts';
import type { Trigger } from '../../domain/delivery/trigger.ts';
import type { AccessStore } from '../../store/access.ts';
import type { DeliveryResult, DeliveryRow, DeliveryStore, NewDelivery } from '../../store/triggers.ts';
import { makeVersion, WEBHOOK } from './deployments.ts';

export interface DeliverySubject {
  readonly name: string;
  /** Opens an empty store. */
  open(): Promise<AccessStore>;
}

const NOW_MS = 1_795_996_352_123;
const LEASE_MS = 30_000;
const STARTED: DeliveryResult = { kind: 'started' };
const FAILED: DeliveryResult = { kind: 'failed', code: 'api/bug', message: 'no \0 answer' };

let made = 0;

export function makeDelivery(changes: Partial<NewDelivery> = {}): NewDelivery {
  made += 1;
  return {
    id: `d${String(made).padStart(6, '0')}`,
    deployment: 'review',
    trigger: 'push',
    version: 1,
    acceptedAtMs: NOW_MS,
    senderId: null,
    contentType: 'application/json',
    headers: {},
    traceparent: null,
    cloudEvent: null,
    upstream: null,
    replayOf: null,
    notBeforeMs: null,
    expiresAtMs: null,
    params: {},
    schedule: null,
    body: Buffer.from('{}'),
    isOrdered: false,
    ...changes,
  };
}

interface Work {
  readonly trigger?: Partial<Trigger>;
  readonly keys?: Partial<DeliveryKeys>;
  readonly holds?: boolean;
  readonly nowMs?: number;
  readonly token?: string;
}

const NO_KEYS: DeliveryKeys = { dedupe: null, debounce: null, batch: null, rate: null, order: null };

export function testDeliveries({ name, open }: DeliverySubject): void {
  describe(`deliveries ${name}`, () => {
    let access: AccessStore;
    let store: DeliveryStore;

    beforeEach(async () => {
      access = await open();
      store = access.triggers.deliveries;
      onTestFinished(() => access.close());
      await access.triggers.deployments.deploy(makeVersion('review'), { isPaused: false });
    });

    const tools: Tools = {
      access: () => access,
      store: () => store,
      async accept(changes) {
        return (await store.accept(makeDelivery(changes))).delivery;
      },
      async claim(nowMs = NOW_MS, token = 'a', limit = 99) {
        return (await store.claim({ token, nowMs, leaseMs: LEASE_MS, limit })).map(({ id }) => id);
      },
      async decide({ id }, { trigger, keys, holds = true, nowMs = NOW_MS, token = 'a' } = {}) {
        const all: DeliveryKeys = { ...NO_KEYS, ...keys };
        const evaluation: Evaluation = { holds, params: {}, input: null, keys: all };
        const decide = createDecide({ trigger: { ...WEBHOOK, ...trigger }, evaluation });
        return await store.decide({ id, token, nowMs, leaseMs: LEASE_MS, trigger: WEBHOOK, keys: all, decide });
      },
    };
    testAcceptance(tools);
    testClaims(tools);
    testDecisions(tools);
    testGroups(tools);
    testWaits(tools);
    testResults(tools);
    testSweep(tools);
  });
}

interface Tools {
  access(): AccessStore;
  store(): DeliveryStore;
  accept(changes?: Partial<NewDelivery>): Promise<DeliveryRow>;
  claim(nowMs?: number, token?: string, limit?: number): Promise<readonly string[]>;
  decide(delivery: Pick<DeliveryRow, 'id'>, work?: Work): Promise<DeliveryRow | null>;
}

function testAcceptance({ store, accept }: Tools): void {
  test('a delivery is found with all that it was accepted with', async () => {
    const body = Buffer.from([0, 255, 92, 48]);
    const delivery = makeDelivery({
      senderId: 'x\0\uD800\\0',
      headers: { 'x-event': 'push', constructor: '\uDC00' },
      traceparent: '00-1-2-03',
      cloudEvent: { source: '/a', id: '\0' },
      upstream: { deployment: 'build', runId: 'build-\0', delivery: '\uD800', links: 3 },
      notBeforeMs: NOW_MS + 5,
      expiresAtMs: NOW_MS + 9,
      params: { constructor: '1' },
      body,
    });
    const { delivery: row, isNew } = await store().accept(delivery);
    const { body: _body, isOrdered: _isOrdered, ...facts } = delivery;
    expect(isNew).toBe(true);
    expect(row).toMatchObject({ ...facts, state: 'accepted', keys: null, bodyBytes: 4, tries: 0, ownsKey: false });
    expect(row.bodySha256).toMatch(/^[0-9a-f]{64}$/);
    expect(await store().find(row.id)).toEqual(row);
    expect(Buffer.from((await store().readBody(row.id))!)).toEqual(body);
    const bodies = await store().readBodies([row.id, 'none']);
    expect([bodies.size, Buffer.from(bodies.get(row.id)!)]).toEqual([1, body]);
    expect([await store().find('none'), await store().readBody('none')]).toEqual([null, null]);
  });

  test('a delivery that its source refuses has its outcome at once, and its body', async () => {
    const delivery = makeDelivery({ refusal: { code: 'trigger/x', message: 'a \0 reason' }, body: Buffer.from('x') });
    const { delivery: row } = await store().accept(delivery);
    expect(row).toMatchObject({
      state: 'refused',
      code: 'trigger/x',
      message: 'a \0 reason',
      dueAtMs: null,
      decidedAtMs: NOW_MS,
      runId: null,
      ownsKey: false,
    });
    expect(Buffer.from((await store().readBody(row.id))!).toString()).toBe('x');
    expect([await store().findNextDue(NOW_MS), await store().hasOpen()]).toEqual([null, false]);
    // A later one with the id stays refused.
    const { refusal: _refusal, ...again } = delivery;
    expect(await store().accept(again)).toEqual({ delivery: row, isNew: false });
  });

  test('open deliveries of a trigger are counted up to a number, and those with an outcome are not', async () => {
    for (const trigger of ['push', 'push', 'push', 'other']) await accept({ trigger });
    await accept({ deployment: 'second' });
    await accept({ refusal: { code: 'trigger/x', message: 'x' } });
    const counts = [2, 3, 4].map((most) => store().countOpen('review', 'push', most));
    expect(await Promise.all(counts)).toEqual([2, 3, 3]);
    expect(await store().countOpen('none', 'push', 9)).toBe(0);
  });

  test('a delivery that is accepted again stays as it is', async () => {
    const delivery = makeDelivery();
    const { delivery: first } = await store().accept(delivery);
    expect(await store().accept({ ...delivery, body: Buffer.from('other') })).toEqual({
      delivery: first,
      isNew: false,
    });
  });

  test('deliveries are listed by what is asked for, the latest first, in pages', async () => {
    const rows = [
      await accept(),
      await accept({ trigger: 'other', acceptedAtMs: NOW_MS + 1 }),
      await accept({ deployment: 'second', acceptedAtMs: NOW_MS + 2 }),
    ];
    const [one, two, three] = rows.map(({ id }) => id);
    const list = async (query: object): Promise<readonly string[]> =>
      (await store().list({ limit: 9, ...query })).map(({ id }) => id);
    expect(await list({})).toEqual([three, two, one]);
    expect(await list({ limit: 2 })).toEqual([three, two]);
    expect(await list({ before: rows[2]!.seq })).toEqual([two, one]);
    expect(await list({ deployment: 'review' })).toEqual([two, one]);
    expect(await list({ trigger: 'other', deployment: 'review' })).toEqual([two]);
    expect(await list({ sinceMs: NOW_MS + 1 })).toEqual([three, two]);
    expect(await list({ state: 'started' })).toEqual([]);
  });

  test('the latest delivery of each of many triggers is found in one look', async () => {
    const rows = [];
    for (const [deployment, trigger] of [
      ['review', 'push'],
      ['review', 'other'],
      ['review', 'push'],
      ['second', 'push'],
    ] as const)
      rows.push(await accept({ deployment, trigger }));
    const asked = [
      { deployment: 'review', trigger: 'push' },
      { deployment: 'second', trigger: 'push' },
      { deployment: 'second', trigger: 'other' },
      { deployment: 'third\0', trigger: 'push\uD800' },
    ];
    const found = await store().listLatest(asked);
    expect(found.map(({ id }) => id).toSorted()).toEqual([rows[2]!.id, rows[3]!.id].toSorted());
    expect(found).toContainEqual(rows[3]);
    expect(await store().listLatest([])).toEqual([]);
  });

  test('deliveries that are accepted at once in an order have numbers in it', async () => {
    const all = await Promise.all(Array.from({ length: 20 }, () => accept({ isOrdered: true })));
    expect(new Set(all.map(({ seq }) => seq)).size).toBe(20);
  });

  test('deliveries that are accepted at once are each committed once, also with equal ids', async () => {
    const ids = Array.from({ length: 90 }, (_, at) => `same-${at % 45}`);
    const accepted = await Promise.all(
      ids.map(async (id, at) => await store().accept(makeDelivery({ id, isOrdered: at % 3 === 0, senderId: id }))),
    );
    expect(accepted.map(({ delivery }) => delivery.senderId)).toEqual(ids);
    expect(accepted.filter(({ isNew }) => isNew)).toHaveLength(45);
    expect(await store().list({ limit: 99 })).toHaveLength(45);
  });

  test('a call wakes a process that listens, until it stops', async () => {
    let calls = 0;
    const wakened = new Promise<void>((resolve) => {
      void store()
        .listen(() => {
          calls += 1;
          resolve();
        })
        .then((stop) => {
          onTestFinished(stop);
          store().wake();
        });
    });
    await wakened;
    expect(calls).toBeGreaterThan(0);
  });

  test('several deliveries are accepted in their order', async () => {
    const made = [
      makeDelivery({ body: Buffer.from('1') }),
      makeDelivery({ isOrdered: true }),
      makeDelivery({ trigger: 'a', isOrdered: true }),
    ];
    await store().acceptAll(made);
    await store().acceptAll([]);
    const rows = (await store().list({ limit: 9 })).toReversed();
    expect(rows.map(({ id }) => id)).toEqual(made.map(({ id }) => id));
    expect(rows).toMatchObject(made.map(() => ({ state: 'accepted', acceptedAtMs: NOW_MS })));
  });
}

function testClaims({ store, accept, claim, decide }: Tools): void {
  test('each delivery is claimed once, in the order of acceptance, until the lease ends', async () => {
    const [one, two, three] = [await accept(), await accept(), await accept()].map(({ id }) => id);
    expect(await claim(NOW_MS, 'a', 2)).toEqual([one, two]);
    expect(await claim(NOW_MS, 'b')).toEqual([three]);
    expect(await claim(NOW_MS + LEASE_MS - 1, 'b')).toEqual([]);
    expect(await store().findNextDue(NOW_MS)).toBe(NOW_MS + LEASE_MS);
    expect(await claim(NOW_MS + LEASE_MS, 'c')).toEqual([one, two, three]);
    expect(await decide({ id: one! }, { token: 'a' })).toBeNull();
    expect(await store().record({ id: one!, token: 'a' }, STARTED, NOW_MS)).toBeNull();
    await store().release({ id: one!, token: 'c' });
    expect(await claim(NOW_MS + LEASE_MS, 'd')).toEqual([one]);
  });

  test('a lease begins again for the holder of the claim only', async () => {
    const { id } = await accept();
    await claim(NOW_MS, 'a');
    await store().renew({ id, token: 'b' }, { nowMs: NOW_MS + 10 * LEASE_MS, leaseMs: LEASE_MS });
    await store().renew({ id, token: 'a' }, { nowMs: NOW_MS + 1, leaseMs: LEASE_MS });
    expect(await claim(NOW_MS + LEASE_MS, 'c')).toEqual([]);
    expect(await claim(NOW_MS + LEASE_MS + 1, 'c')).toEqual([id]);
    await store().renew({ id, token: 'a' }, { nowMs: NOW_MS + 10 * LEASE_MS, leaseMs: LEASE_MS });
    expect(await claim(NOW_MS + 2 * LEASE_MS + 1, 'd')).toEqual([id]);
  });

  test('processes that claim at once share the deliveries', async () => {
    const ids = (await Promise.all(Array.from({ length: 20 }, () => accept()))).map(({ id }) => id);
    const claimed = await Promise.all(Array.from({ length: 5 }, (_, index) => claim(NOW_MS, `p${index}`, 7)));
    const rest = await claim(NOW_MS, 'rest');
    expect([...claimed.flat(), ...rest].toSorted()).toEqual(ids.toSorted());
  });

  test('a clock that was set back delays neither a new delivery nor one of a dead process', async () => {
    const { id } = await accept({ acceptedAtMs: NOW_MS + 3_600_000 });
    expect(await claim(NOW_MS + 3_600_000, 'dead')).toEqual([id]);
    expect(await claim(NOW_MS, 'b')).toEqual([id]);
  });
}

function testDecisions({ access, store, accept, claim, decide }: Tools): void {
  test('a delivery starts a run whose id follows from it, and its claim is renewed', async () => {
    const row = await accept();
    await claim();
    expect(await store().hasOpen()).toBe(true);
    expect(await decide(row, { nowMs: NOW_MS + 7 })).toMatchObject({
      state: 'starting',
      runId: `review-${row.id}`,
      keys: NO_KEYS,
      decidedAtMs: NOW_MS + 7,
    });
    expect(await claim(NOW_MS + LEASE_MS, 'b')).toEqual([]);
    const started = await store().record({ id: row.id, token: 'a' }, STARTED, NOW_MS);
    expect(started).toMatchObject({ state: 'started', dueAtMs: null, hold: null });
    expect(await store().find(row.id)).toEqual(started);
    expect([await store().hasOpen(), await store().findNextDue(NOW_MS)]).toEqual([false, null]);
    expect(await decide(row)).toBeNull();
  });

  test('a process continues what a dead one has decided', async () => {
    const row = await accept();
    await claim();
    await decide(row);
    expect(await claim(NOW_MS + LEASE_MS, 'b')).toEqual([row.id]);
    expect(await decide(row, { token: 'b', nowMs: NOW_MS + LEASE_MS, holds: false })).toMatchObject({
      state: 'starting',
      runId: `review-${row.id}`,
    });
  });

  test('one of several deliveries with one key that are decided at once starts, and the others name it', async () => {
    const rows = [await accept(), await accept(), await accept()];
    await claim();
    const decided = await Promise.all(rows.map((row) => decide(row, { keys: { dedupe: 'k\0' } })));
    const starting = decided.filter((row) => row?.state === 'starting');
    expect(starting).toHaveLength(1);
    for (const row of decided.filter((each) => each !== starting[0]))
      expect(row).toMatchObject({ state: 'deduplicated', into: starting[0]!.id });
  });

  test('deliveries that are decided at once have decisions of their own, and a wrong one harms no other', async () => {
    const rows = [await accept(), await accept(), await accept()];
    await claim();
    const request = { token: 'a', nowMs: NOW_MS, leaseMs: LEASE_MS, trigger: WEBHOOK, keys: NO_KEYS };
    const wrong = store().decide({ ...request, id: rows[1]!.id, decide: () => assert.fail('a bug') });
    const [filtered, failed, lost, starting] = await Promise.allSettled([
      decide(rows[0]!, { holds: false }),
      wrong,
      decide(rows[0]!, { token: 'b' }),
      decide(rows[2]!),
    ]);
    expect(filtered).toMatchObject({ value: { state: 'filtered', code: 'trigger/no-match', keys: NO_KEYS } });
    expect(failed).toMatchObject({ status: 'rejected', reason: { message: 'a bug' } });
    expect(lost).toMatchObject({ value: null });
    expect(starting).toMatchObject({ value: { state: 'starting' } });
    expect(await claim(NOW_MS + LEASE_MS, 'c')).toEqual([rows[1]!.id, rows[2]!.id]);
    expect(await store().find(rows[0]!.id)).toMatchObject({ state: 'filtered' });
  });

  test('a key is free again after its time, for another trigger, and after a refusal', async () => {
    const keys = { dedupe: 'k' };
    const forMs = WEBHOOK.dedupe.forMs;
    const rows = [
      await accept(),
      await accept({ acceptedAtMs: NOW_MS + forMs - 1 }),
      await accept({ acceptedAtMs: NOW_MS + forMs }),
      await accept({ trigger: 'other' }),
    ];
    await claim();
    const states: unknown[] = [];
    for (const row of rows) states.push((await decide(row, { keys }))?.state);
    expect(states).toEqual(['starting', 'deduplicated', 'starting', 'starting']);
    const code = 'trigger/bad-expression';
    await store().record({ id: rows[2]!.id, token: 'a' }, { kind: 'refused', code, message: 'x' }, NOW_MS);
    const again = await accept({ acceptedAtMs: NOW_MS + forMs });
    await claim();
    expect(await decide(again, { keys })).toMatchObject({ state: 'starting', ownsKey: true });
  });

  test('a pause holds deliveries until it ends, or drops them', async () => {
    const { deployments } = access().triggers;
    await deployments.pause('review', 'hold', NOW_MS);
    const row = await accept();
    await claim();
    expect(await decide(row)).toMatchObject({ state: 'held', hold: 'paused' });
    expect([await store().hasOpen(), await claim(NOW_MS + 1)]).toEqual([false, []]);
    await deployments.resume('review', NOW_MS);
    await store().releasePaused('review', NOW_MS);
    expect(await claim(NOW_MS + 1)).toEqual([row.id]);
    await deployments.pause('review', 'drop', NOW_MS);
    expect(await decide(row)).toMatchObject({ state: 'filtered', code: 'trigger/paused', dueAtMs: null });
  });

  test('deliveries of a deployment that was deleted are refused', async () => {
    const row = await accept();
    await claim();
    await access().triggers.deployments.delete('review', NOW_MS);
    expect(await decide(row)).toMatchObject({ state: 'refused', code: 'trigger/deployment-deleted' });
  });
}

function testGroups({ store, accept, claim, decide }: Tools): void {
  const debounce = (take: 'first' | 'last'): Work => ({
    trigger: { debounce: { key: null, delayMs: 1_000, maxDelayMs: 2_500, take } },
    keys: { debounce: '' },
  });

  test.each(['first', 'last'] as const)('debounce makes one run of deliveries, and takes the %s', async (take) => {
    const rows: DeliveryRow[] = [];
    for (const atMs of [0, 900, 1_800, 2_400]) rows.push(await accept({ acceptedAtMs: NOW_MS + atMs }));
    await claim(NOW_MS + 2_400);
    for (const row of rows) await decide(row, { ...debounce(take), nowMs: row.acceptedAtMs });
    const winner = take === 'first' ? rows[0]! : rows[3]!;
    const due = NOW_MS + 2_500;
    expect(await store().find(winner.id)).toMatchObject({
      state: 'held',
      hold: 'debounce',
      dueAtMs: due,
      group: { id: rows[0]!.id, count: 4, sizeBytes: 8 },
    });
    expect(await claim(due - 1)).toEqual([]);
    expect(await claim(due)).toEqual([winner.id]);
    expect(await decide(winner, { ...debounce(take), nowMs: due })).toMatchObject({ state: 'starting' });
    for (const { id } of rows.filter((row) => row.id !== winner.id))
      expect(await store().find(id)).toMatchObject({ state: 'merged', into: winner.id });
  });

  test('debounce waits for a delivery of its time that is not decided yet', async () => {
    const work = debounce('last');
    const one = await accept();
    const two = await accept({ acceptedAtMs: NOW_MS + 500 });
    await claim(NOW_MS + 9_000);
    const late = { ...work, nowMs: NOW_MS + 9_000 };
    expect(await decide(one, late)).toMatchObject({ hold: 'debounce', dueAtMs: NOW_MS + 9_100 });
    expect(await decide(two, late)).toMatchObject({ group: { count: 2 } });
    expect(await store().find(one.id)).toMatchObject({ state: 'merged', into: two.id });
  });

  test('a batch starts at its size or after its time, with its deliveries in order', async () => {
    const work: Work = { trigger: { batch: { key: null, size: 3, timeoutMs: 1_000 } }, keys: { batch: '' } };
    const rows: DeliveryRow[] = [];
    for (const body of ['1', '2', '3', '4']) rows.push(await accept({ body: Buffer.from(body) }));
    await claim();
    for (const row of rows) await decide(row, work);
    expect(await claim()).toEqual([rows[0]!.id]);
    expect(await decide(rows[0]!, work)).toMatchObject({ state: 'starting', group: { count: 3 } });
    const members = await store().listMembers(rows[0]!.id);
    expect(members.map(({ body }) => Buffer.from(body!).toString())).toEqual(['1', '2', '3']);
    expect(await claim(NOW_MS + 999, 'b')).toEqual([]);
    expect(await claim(NOW_MS + 1_000, 'b')).toEqual([rows[3]!.id]);
    expect(await decide(rows[3]!, { ...work, token: 'b', nowMs: NOW_MS + 1_000 })).toMatchObject({ state: 'starting' });
    expect(await store().listMembers(rows[3]!.id)).toHaveLength(1);
  });
}

function testWaits({ store, accept, claim, decide }: Tools): void {
  test('a rate holds a delivery until its token is back, or drops it', async () => {
    const rate = { key: null, limit: 2, perMs: 1_000, onLimit: 'hold' } as const;
    const rows = [await accept(), await accept(), await accept(), await accept()];
    await claim();
    const decided: (DeliveryRow | null)[] = [];
    for (const row of rows) decided.push(await decide(row, { trigger: { rate }, keys: { rate: '' } }));
    expect(decided.map((row) => [row?.state, row?.dueAtMs])).toEqual([
      ['starting', NOW_MS],
      ['starting', NOW_MS],
      ['held', NOW_MS + 500],
      ['held', NOW_MS + 1_000],
    ]);
    expect(await claim(NOW_MS + 500)).toEqual([rows[2]!.id]);
    const late = { nowMs: NOW_MS + 500, keys: { rate: '' } };
    expect(await decide(rows[2]!, { ...late, trigger: { rate } })).toMatchObject({ state: 'starting' });
    const dropped = await accept();
    await claim(NOW_MS + 500);
    const drop = { ...rate, onLimit: 'drop' } as const;
    expect(await decide(dropped, { ...late, trigger: { rate: drop } })).toMatchObject({
      state: 'filtered',
      code: 'trigger/rate-limited',
    });
  });

  test('deliveries of an order key start one after the other, and others do not wait', async () => {
    const order = { key: 'x' };
    const work = (key: string): Work => ({ trigger: { order }, keys: { order: key } });
    const [one, two, other, three] = [await accept(), await accept(), await accept(), await accept()];
    await claim();
    expect(await decide(two!, work('k'))).toMatchObject({ state: 'held', hold: 'order' });
    expect(await decide(one!, work('k'))).toMatchObject({ state: 'starting' });
    expect(await decide(other!, work('l'))).toMatchObject({ state: 'starting' });
    expect(await decide(three!, work('k'))).toMatchObject({ hold: 'order' });
    await store().record({ id: one!.id, token: 'a' }, FAILED, NOW_MS);
    expect(await claim(NOW_MS + 999)).toEqual([]);
    expect(await claim(NOW_MS + 1_000)).toEqual([one!.id, two!.id, three!.id]);
    expect(await decide(two!, { ...work('k'), nowMs: NOW_MS + 1_000 })).toMatchObject({ hold: 'order' });
    await decide(one!, { ...work('k'), nowMs: NOW_MS + 1_000 });
    await store().record({ id: one!.id, token: 'a' }, STARTED, NOW_MS + 1_001);
    expect(await claim(NOW_MS + 1_001)).toEqual([two!.id]);
  });

  test('a deployment has a limited number of open runs, and the end of one makes room for the next', async () => {
    const rows = await Promise.all(Array.from({ length: MOST_OPEN_RUNS + 2 }, () => accept()));
    const inOrder = rows.toSorted((one, other) => one.seq - other.seq);
    await claim(NOW_MS, 'a', 999);
    for (const row of inOrder) {
      const decided = await decide(row);
      if (decided?.state === 'starting') await store().record({ id: row.id, token: 'a' }, STARTED, NOW_MS);
    }
    const [next, last] = inOrder.slice(MOST_OPEN_RUNS);
    expect(await store().find(next!.id)).toMatchObject({ state: 'held', hold: 'open-runs' });
    expect(await claim(NOW_MS)).toEqual([]);
    const open = await store().listOpenRuns(2);
    expect(open.map(({ id }) => id)).toEqual(inOrder.slice(0, 2).map(({ id }) => id));
    expect(await store().listOpenRuns(999, open[1]!.seq)).toHaveLength(MOST_OPEN_RUNS - 2);
    for (const id of [open[0]!.id, 'none'])
      expect(await store().recordRunEnd({ id, event: null, nowMs: NOW_MS + 5, createId: () => 'x' })).toBe(0);
    expect(await store().find(open[0]!.id)).toMatchObject({ state: 'started', runEndedAtMs: NOW_MS + 5 });
    expect(await claim(NOW_MS + 5)).toEqual([next!.id]);
    expect(await decide(next!, { nowMs: NOW_MS + 5 })).toMatchObject({ state: 'starting' });
    expect(await store().find(last!.id)).toMatchObject({ state: 'held', hold: 'open-runs' });
  });
}

function testResults({ store, accept, claim, decide }: Tools): void {
  test('a failed try is repeated after a pause that grows, until the last one', async () => {
    const row = await accept();
    let nowMs = NOW_MS;
    for (let tries = 1; tries < MOST_TRIES; tries += 1) {
      expect(await claim(nowMs)).toEqual([row.id]);
      await decide(row, { nowMs });
      const failed = await store().record({ id: row.id, token: 'a' }, FAILED, nowMs);
      expect(failed).toMatchObject({ state: 'held', hold: 'retry', tries, code: 'api/bug' });
      expect(await claim(failed!.dueAtMs! - 1)).toEqual([]);
      nowMs = failed!.dueAtMs!;
    }
    await claim(nowMs);
    const failed = await store().record({ id: row.id, token: 'a' }, FAILED, nowMs);
    expect(failed).toMatchObject({ state: 'failed', dueAtMs: null, tries: MOST_TRIES });
    expect(await store().find(row.id)).toMatchObject({ state: 'failed', message: 'no \0 answer' });
    expect(nowMs - NOW_MS).toBeGreaterThan(55 * 60_000);
  });

  test('a refusal is the end', async () => {
    const row = await accept();
    await claim();
    await decide(row, { keys: { dedupe: 'k' } });
    const result: DeliveryResult = { kind: 'refused', code: 'trigger/bad-expression', message: 'm'.repeat(9_000) };
    expect(await store().record({ id: row.id, token: 'a' }, result, NOW_MS)).toMatchObject({ state: 'refused' });
    const kept = (await store().find(row.id))!;
    expect(kept).toMatchObject({ state: 'refused', ownsKey: false, code: 'trigger/bad-expression' });
    expect(kept.message!.length).toBeGreaterThan(1_000);
    expect(await claim()).toEqual([]);
  });
}

function testSweep({ store, accept, claim, decide }: Tools): void {
  test('bodies and later rows of old deliveries are deleted, but not of open ones', async () => {
    const [ended, open, running] = [await accept(), await accept(), await accept()];
    await claim();
    await decide(ended!, { holds: false });
    await decide(running!);
    await store().record({ id: running!.id, token: 'a' }, STARTED, NOW_MS);
    expect(await store().sweep(NOW_MS + PAYLOAD_KEPT_MS - 1)).toBe(0);
    expect(await store().sweep(NOW_MS + PAYLOAD_KEPT_MS)).toBe(2);
    expect([await store().readBody(ended!.id), await store().readBody(running!.id)]).toEqual([null, null]);
    expect(await store().readBody(open!.id)).not.toBeNull();
    expect(await store().find(ended!.id)).not.toBeNull();
    expect(await store().sweep(NOW_MS + DELIVERY_KEPT_MS)).toBe(0);
    const rest = (await store().list({ limit: 9 })).map(({ id }) => id);
    expect(rest).toEqual([running!.id, open!.id]);
  });
}
