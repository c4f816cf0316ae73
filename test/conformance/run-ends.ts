/** The promises of every store about ends of runs that other deployments follow. A store's own test file calls these tests. */
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { createDecide } from '../../domain/delivery/decide.ts';
import type { Evaluation } from '../../domain/delivery/decision.ts';
import { MOST_LINKS } from '../../domain/delivery/delivery.ts';
import type { RunEnd, Trigger } from '../../domain/delivery/trigger.ts';
import type { AccessStore } from '../../store/access.ts';
import type { DeliveryRow, NewDelivery, RecordedEnd } from '../../store/triggers.ts';
import { makeDelivery } from './deliveries.ts';
import { makeVersion, WEBHOOK } from './deployments.ts';

export interface RunEndSubject {
  readonly name: string;
  /** Opens an empty store. */
  open(): Promise<AccessStore>;
}

const NOW_MS = 1_795_996_352_123;
const ACTIVE = { isPaused: false };
const KEYS = { dedupe: null, debounce: null, batch: null, rate: null, order: null };
const BODY = Buffer.from('{"state": "failed\0"}');

export function followTrigger(of: string, states: readonly RunEnd[], changes: Partial<Trigger> = {}): Trigger {
  return { ...WEBHOOK, name: `after-${of}`, source: { kind: 'run', of, states }, ...changes };
}

export function testRunEnds({ name, open }: RunEndSubject): void {
  describe(`ends of runs ${name}`, () => {
    let access: AccessStore;
    let ids: number;

    beforeEach(async () => {
      access = await open();
      ids = 0;
      onTestFinished(() => access.close());
      await access.triggers.deployments.deploy(makeVersion('build'), ACTIVE);
    });

    const deploy = async (deployment: string, ...triggers: readonly Trigger[]) =>
      await access.triggers.deployments.deploy(
        makeVersion(deployment, { spec: `${deployment} ${JSON.stringify(triggers)}`, triggers }),
        ACTIVE,
      );

    /** Accepts a delivery and starts its run. */
    const start = async (changes: Partial<NewDelivery> = {}): Promise<DeliveryRow> => {
      const { deliveries } = access.triggers;
      const { delivery } = await deliveries.accept(makeDelivery({ deployment: 'build', ...changes }));
      return (await begin(delivery))!;
    };
    const begin = async ({ id }: Pick<DeliveryRow, 'id'>): Promise<DeliveryRow | null> => {
      const { deliveries } = access.triggers;
      await deliveries.claim({ token: 'a', nowMs: NOW_MS, leaseMs: 1_000, limit: 99 });
      const evaluation: Evaluation = { holds: true, params: {}, input: null, keys: KEYS };
      const decide = createDecide({ trigger: WEBHOOK, evaluation });
      const decided = await deliveries.decide({
        id,
        token: 'a',
        nowMs: NOW_MS,
        leaseMs: 1_000,
        trigger: WEBHOOK,
        keys: KEYS,
        decide,
      });
      if (decided?.state !== 'starting') return decided;
      return await deliveries.record({ id, token: 'a' }, { kind: 'started' }, NOW_MS);
    };
    const end = async ({ id }: Pick<DeliveryRow, 'id'>, event: RecordedEnd['event']): Promise<number> =>
      await access.triggers.deliveries.recordRunEnd({ id, event, nowMs: NOW_MS + 7, createId: () => `n${(ids += 1)}` });
    const list = async (): Promise<readonly DeliveryRow[]> =>
      (await access.triggers.deliveries.list({ limit: 99 })).filter(({ upstream }) => upstream !== null).toReversed();
    const failed = { state: 'failed', body: BODY } as const;

    test('each trigger that follows the deployment gets one delivery, however often the end is recorded', async () => {
      await deploy(
        'report',
        followTrigger('build', ['failed']),
        followTrigger('build', ['failed', 'cancelled'], { name: 'also', order: { key: 'x' } }),
      );
      await deploy('publish', followTrigger('build', ['succeeded']));
      await deploy('other', followTrigger('test', ['failed']));
      const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
      const started = await start({ traceparent, cloudEvent: { source: 's', id: 'i' } });
      const counts = await Promise.all([end(started, failed), end(started, failed), end(started, null)]);
      expect(counts.toSorted()).toEqual([0, 0, 2]);
      expect(await end(started, failed)).toBe(0);
      const made = await list();
      const upstream = { deployment: 'build', runId: started.runId, delivery: started.id, links: 1 };
      expect(made).toMatchObject(
        ['after-build', 'also'].map((trigger) => ({
          deployment: 'report',
          version: 1,
          trigger,
          upstream,
          traceparent,
          cloudEvent: null,
          senderId: started.runId,
          state: 'accepted',
          acceptedAtMs: NOW_MS + 7,
          contentType: 'application/json',
        })),
      );
      expect(new Set(made.map(({ id }) => id))).toEqual(new Set(['n1', 'n2']));
      expect(Buffer.from((await access.triggers.deliveries.readBody('n1'))!)).toEqual(BODY);
      expect(await access.triggers.deliveries.find(started.id)).toMatchObject({ runEndedAtMs: NOW_MS + 7 });
    });

    test('only the enabled version of a deployment that exists follows, also a paused one', async () => {
      await deploy('report', followTrigger('build', ['failed']));
      await deploy('report', followTrigger('build', ['succeeded']));
      await deploy('gone', followTrigger('build', ['failed']));
      await access.triggers.deployments.delete('gone', NOW_MS);
      expect(await end(await start(), failed)).toBe(0);
      const listFollowers = async (name: string) => await access.triggers.deliveries.listFollowers(name);
      expect(await listFollowers('build')).toMatchObject([{ deployment: 'report', version: 2 }]);
      await access.triggers.deployments.enable('report', 1, NOW_MS);
      await access.triggers.deployments.pause('report', 'hold', NOW_MS);
      const triggers = [followTrigger('build', ['failed'])];
      expect(await listFollowers('build')).toMatchObject([{ deployment: 'report', version: 1, triggers }]);
      expect(await listFollowers('report\0')).toEqual([]);
      expect(await end(await start(), failed)).toBe(1);
      expect(await list()).toMatchObject([{ deployment: 'report', version: 1 }]);
    });

    test('a run that has not started has no end', async () => {
      await deploy('report', followTrigger('build', ['failed']));
      const { delivery } = await access.triggers.deliveries.accept(makeDelivery({ deployment: 'build' }));
      expect(await end(delivery, failed)).toBe(0);
      expect(await end({ id: 'none' }, failed)).toBe(0);
      expect(await list()).toEqual([]);
    });

    test(`a chain has ${MOST_LINKS} links, and the next delivery is refused`, async () => {
      await deploy('report', followTrigger('build', ['failed']));
      const links = async (count: number): Promise<DeliveryRow> =>
        await start({ upstream: { deployment: 'x', runId: 'x-1', delivery: 'x', links: count } });
      expect(await end(await links(MOST_LINKS - 1), failed)).toBe(1);
      expect(await end(await links(MOST_LINKS), failed)).toBe(1);
      const [last, over] = await list().then((rows) => rows.filter(({ deployment }) => deployment === 'report'));
      expect([last!.upstream!.links, over!.upstream!.links]).toEqual([MOST_LINKS, MOST_LINKS + 1]);
      expect(await begin(last!)).toMatchObject({ state: 'started' });
      expect(await begin(over!)).toMatchObject({ state: 'refused', code: 'trigger/long-chain' });
    });

    test('a delivery is refused if its deployments follow each other', async () => {
      await deploy('report', followTrigger('build', ['failed']));
      expect(await end(await start(), failed)).toBe(1);
      const [made] = await list();
      const { deliveries } = access.triggers;
      await deliveries.claim({ token: 'a', nowMs: NOW_MS + 9, leaseMs: 1_000, limit: 99 });
      const evaluation: Evaluation = { holds: true, params: {}, input: null, keys: KEYS };
      const request = { id: made!.id, token: 'a', nowMs: NOW_MS + 9, leaseMs: 1_000, trigger: WEBHOOK, keys: KEYS };
      const real = createDecide({ trigger: WEBHOOK, evaluation });
      const decided = await deliveries.decide({
        ...request,
        // No store lets a circle come into being, so the fact is changed.
        decide: (row, facts, nowMs) => {
          expect(facts.circle).toBeNull();
          return real(row, { ...facts, circle: ['report', 'build', 'report'] }, nowMs);
        },
      });
      expect(decided).toMatchObject({ state: 'refused', code: 'trigger/circle' });
      expect(decided!.message).toContain('report → build → report');
    });
  });
}
