/** The promises of every store of notifications. A store's own test file calls these tests. */
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { NoticeMessage } from '../../domain/notification/notice.ts';
import { NO_NOTIFY, type Notify } from '../../domain/notification/notify.ts';
import { NEW_WATCH } from '../../domain/notification/watch.ts';
import { createDecide } from '../../domain/delivery/decide.ts';
import { MOST_TRIES } from '../../domain/delivery/retry.ts';
import type { AccessStore } from '../../store/access.ts';
import {
  MOST_OF_RECEIVER,
  type NewNotification,
  NOTIFICATION_KEPT_MS,
  type NotificationStore,
  type WatchedRun,
  type WatchedRunEnd,
} from '../../store/ports/notifications.ts';
import type { DeliveryResult, TriggerStore } from '../../store/triggers.ts';
import { makeDelivery } from './deliveries.ts';
import { makeVersion, WEBHOOK } from './deployments.ts';

export interface NotificationSubject {
  readonly name: string;
  /** Opens an empty store. */
  open(): Promise<AccessStore>;
}

const NOW_MS = 1_795_996_352_123;
const LEASE_MS = 30_000;
const KEYS = { dedupe: null, debounce: null, batch: null, rate: null, order: null };

export const NOTIFY: Notify = {
  ...NO_NOTIFY,
  receivers: [
    {
      name: 'ops',
      states: ['failed', 'recovered', 'asking', 'late', 'waiting_long', 'budget'],
      as: null,
      target: { kind: 'webhook', url: 'https://ops.example/hooks', secret: 'NOTIFY' },
    },
  ],
};

export const MESSAGE: NoticeMessage = {
  deployment: 'review',
  version: 1,
  trigger: 'push',
  delivery: '01a',
  runId: 'review-01a',
  kind: 'failed',
  occurrence: '',
  atMs: NOW_MS,
  text: 'the run has failed',
  stage: null,
  code: null,
  message: null,
  question: null,
};

export function makeNotification(id: string, changes: Partial<NewNotification> = {}): NewNotification {
  return { id, receiver: 'ops', message: MESSAGE, createdAtMs: NOW_MS, ...changes };
}

/** Starts the run of a delivery of version 1, or lets its last try have a result. */
export async function settleDelivery(
  { deliveries }: Pick<TriggerStore, 'deliveries'>,
  id: string,
  result: DeliveryResult = { kind: 'started' },
  nowMs = NOW_MS,
): Promise<void> {
  const decide = createDecide({ trigger: WEBHOOK, evaluation: { holds: true, params: {}, input: null, keys: KEYS } });
  await deliveries.accept(makeDelivery({ id, acceptedAtMs: nowMs, senderId: id, version: 1, deployment: 'review' }));
  for (let at = nowMs; ; at += 3_600_000) {
    await deliveries.claim({ token: 't', nowMs: at, leaseMs: LEASE_MS, limit: 99 });
    const facts = { id, token: 't', nowMs: at, leaseMs: LEASE_MS, trigger: WEBHOOK, keys: KEYS };
    await deliveries.decide({ ...facts, decide });
    const row = await deliveries.record({ id, token: 't' }, result, result.kind === 'started' ? nowMs : at);
    if (row?.dueAtMs === null || row === null) return;
  }
}

export function testNotifications({ name, open }: NotificationSubject): void {
  describe(`notifications ${name}`, () => {
    let triggers: TriggerStore;
    let store: NotificationStore;

    beforeEach(async () => {
      const opened = await open();
      triggers = opened.triggers;
      store = triggers.notifications;
      onTestFinished(() => opened.close());
      await triggers.deployments.deploy(makeVersion('review', { notify: NOTIFY }), { isPaused: false });
    });

    const claim = (token: string, nowMs = NOW_MS, limit = 99) =>
      store.claim({ token, nowMs, leaseMs: LEASE_MS, limit });

    const watch = async (id: string): Promise<WatchedRun> => {
      await settleDelivery(triggers, id);
      return (await store.listWatched(99)).find(({ delivery }) => delivery === id)!;
    };

    const finish = async (id: string, kind: WatchedRunEnd['kind']): Promise<void> => {
      const { runId, revision, state } = await watch(id);
      const recovered = [makeNotification(`recovered-${id}`)];
      const end = { kind, atMs: NOW_MS, recovered };
      expect(await store.advance({ runId, revision, state, notifications: [], end })).toBe(true);
    };

    test('a run is watched from the record of its start, if its version has receivers', async () => {
      expect(await watch('d1')).toEqual({
        seq: expect.any(Number) as number,
        runId: 'review-d1',
        deployment: 'review',
        version: 1,
        trigger: 'push',
        delivery: 'd1',
        startedAtMs: NOW_MS,
        failure: null,
        state: NEW_WATCH,
        revision: 0,
      });
      expect(await store.hasOpen()).toBe(true);
      await watch('d2');
      const [first, second] = await store.listWatched(99);
      expect(await store.listWatched(99, first!.seq)).toEqual([second]);
      expect(await store.listWatched(1)).toEqual([first]);
    });

    test('a run of a version without receivers is not watched', async () => {
      await triggers.deployments.delete('review', NOW_MS);
      const version = makeVersion('other', { notify: NO_NOTIFY });
      await triggers.deployments.deploy(version, { isPaused: false });
      await settleDelivery(triggers, 'd1');
      expect(await store.listWatched(99)).toHaveLength(0);
    });

    test('a delivery whose last try to start has failed is watched with the reason', async () => {
      await settleDelivery(triggers, 'd1', { kind: 'failed', code: 'cli/no-server', message: 'away\0\uD800' });
      expect((await triggers.deliveries.find('d1'))?.tries).toBe(MOST_TRIES);
      expect(await store.listWatched(99)).toMatchObject([
        { runId: 'review-d1', failure: { code: 'cli/no-server', message: 'away\0\uD800' } },
      ]);
      await settleDelivery(triggers, 'd2', { kind: 'refused', code: 'spec/invalid', message: 'no' });
      expect(await store.listWatched(99)).toHaveLength(1);
    });

    test('a change and its notifications are one step, which one of two processes makes', async () => {
      const { runId, revision } = await watch('d1');
      const state = { ...NEW_WATCH, seq: 7 };
      const advance = (id: string) =>
        store.advance({ runId, revision, state, notifications: [makeNotification(id)], end: null });
      const made = await Promise.all([advance('a'), advance('b')]);
      expect(made.toSorted()).toEqual([false, true]);
      expect(await store.list({ limit: 9 })).toHaveLength(1);
      expect(await store.listWatched(9)).toMatchObject([{ revision: 1, state }]);
      expect(await store.advance({ runId: 'none', revision, state, notifications: [], end: null })).toBe(false);
    });

    test('a run that has ended is no longer watched, also if its start is recorded again', async () => {
      await finish('d1', 'cancelled');
      await settleDelivery(triggers, 'd1');
      expect(await store.listWatched(9)).toEqual([]);
      expect(await store.hasOpen()).toBe(false);
    });

    test('the first success after a failure has recovered, and no other', async () => {
      for (const [id, kind] of [
        ['d1', 'succeeded'],
        ['d2', 'failed'],
        ['d3', 'failed'],
        ['d4', 'cancelled'],
        ['d5', 'succeeded'],
        ['d6', 'succeeded'],
      ] as const)
        await finish(id, kind);
      expect((await store.list({ limit: 9 })).map(({ id }) => id)).toEqual(['recovered-d5']);
    });

    test('a notification is kept as it was made, and a second one with its id is not added', async () => {
      const message: NoticeMessage = {
        ...MESSAGE,
        message: 'a\0b \uD800 \\0 ü😀',
        question: { execKey: 'x', message: '?\0', by: ['ann'], deadlineAtMs: 1, item: '{}' },
      };
      await store.add([makeNotification('a', { message })]);
      await store.add([makeNotification('a', { receiver: 'other' }), makeNotification('b')]);
      const [second, first] = await store.list({ limit: 9 });
      expect(first).toEqual({
        ...makeNotification('a', { message }),
        seq: first!.seq,
        state: 'waiting',
        dueAtMs: NOW_MS,
        tries: 0,
        code: null,
        problem: null,
        sentAtMs: null,
      });
      expect(await store.find('a')).toEqual(first);
      expect(await store.find('c')).toBeNull();
      expect(second).toMatchObject({ id: 'b', receiver: 'ops' });
      expect(second!.seq).toBeGreaterThan(first!.seq);
    });

    test('the list has filters and pages', async () => {
      const asking = { ...MESSAGE, kind: 'asking', deployment: 'other' } as const;
      await store.add([makeNotification('a'), makeNotification('b', { message: asking }), makeNotification('c')]);
      await claim('t');
      await store.record({ id: 'c', token: 't' }, { kind: 'sent' }, NOW_MS);
      const ids = async (query: object) => (await store.list({ limit: 9, ...query })).map(({ id }) => id);
      expect(await ids({})).toEqual(['c', 'b', 'a']);
      expect(await ids({ deployment: 'review' })).toEqual(['c', 'a']);
      expect(await ids({ kind: 'asking' })).toEqual(['b']);
      expect(await ids({ state: 'sent' })).toEqual(['c']);
      const [latest] = await store.list({ limit: 1 });
      expect(await ids({ before: latest!.seq })).toEqual(['b', 'a']);
    });

    test('a notification has one claim at a time, which ends with its lease', async () => {
      await store.add([makeNotification('a')]);
      const claimed = await Promise.all([claim('one'), claim('two'), claim('three')]);
      expect(claimed.flat()).toHaveLength(1);
      expect(await store.findNextDue(NOW_MS)).toBe(NOW_MS + LEASE_MS);
      expect(await claim('early', NOW_MS + LEASE_MS - 1)).toEqual([]);
      expect(await claim('next', NOW_MS + LEASE_MS)).toHaveLength(1);
      // The first process is late.
      expect(await store.record({ id: 'a', token: 'one' }, { kind: 'sent' }, NOW_MS)).toBe(false);
      expect(await store.record({ id: 'a', token: 'next' }, { kind: 'sent' }, NOW_MS + 5)).toBe(true);
      expect(await store.find('a')).toMatchObject({ state: 'sent', sentAtMs: NOW_MS + 5, tries: 1, dueAtMs: null });
      expect(await store.findNextDue(NOW_MS)).toBeNull();
    });

    test('a lease of the far future was made before the clock was set back', async () => {
      await store.add([makeNotification('a')]);
      await store.claim({ token: 'one', nowMs: NOW_MS + 3_600_000, leaseMs: LEASE_MS, limit: 9 });
      expect(await claim('two')).toHaveLength(1);
    });

    test('one receiver has few claims, so that it delays no other', async () => {
      const many = Array.from({ length: MOST_OF_RECEIVER + 3 }, (_, index) => makeNotification(`a${index}`));
      await store.add([...many, makeNotification('b', { receiver: 'other' })]);
      const claimed = await claim('t');
      expect(claimed.map(({ id }) => id)).toEqual(['a0', 'a1', 'b']);
      expect(await claim('u', NOW_MS, 1)).toMatchObject([{ id: 'a2' }]);
    });

    test('a failed try has a next one or makes the notification dead, and a replay begins again', async () => {
      await store.add([makeNotification('a')]);
      const fail = async (nextAtMs: number | null, nowMs: number): Promise<void> => {
        await claim('t', nowMs);
        const result = { kind: 'failed', code: 'notify/answer', problem: 'no\0', nextAtMs } as const;
        expect(await store.record({ id: 'a', token: 't' }, result, nowMs)).toBe(true);
      };
      await fail(NOW_MS + 10, NOW_MS);
      expect(await store.find('a')).toMatchObject({
        state: 'waiting',
        dueAtMs: NOW_MS + 10,
        tries: 1,
        problem: 'no\0',
      });
      expect(await claim('u', NOW_MS + 9)).toEqual([]);
      expect(await store.replay('a', NOW_MS)).toBe(false);
      await fail(null, NOW_MS + 10);
      expect(await store.find('a')).toMatchObject({ state: 'dead', dueAtMs: null, tries: 2, code: 'notify/answer' });
      expect(await store.hasOpen()).toBe(false);
      expect(await store.replay('a', NOW_MS + 20)).toBe(true);
      expect(await store.find('a')).toMatchObject({ state: 'waiting', dueAtMs: NOW_MS + 20, tries: 0 });
      expect(await store.replay('none', NOW_MS)).toBe(false);
    });

    test('a sweep deletes old notifications that wait for no try', async () => {
      await store.add([makeNotification('a'), makeNotification('b', { receiver: 'other' })]);
      await claim('t');
      await store.record({ id: 'a', token: 't' }, { kind: 'sent' }, NOW_MS);
      await store.sweep(NOW_MS + NOTIFICATION_KEPT_MS - 1);
      expect(await store.list({ limit: 9 })).toHaveLength(2);
      await store.sweep(NOW_MS + NOTIFICATION_KEPT_MS);
      expect(await store.list({ limit: 9 })).toMatchObject([{ id: 'b' }]);
    });
  });
}
