/** The promises of every store of sources. A store's own test file calls these tests. */
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { AccessStore } from '../../store/access.ts';
import { SOURCE_KEPT_MS, type SourceEvent } from '../../store/ports/sources.ts';
import { makeDelivery } from './deliveries.ts';
import { makeVersion } from './deployments.ts';

export interface SourceSubject {
  readonly name: string;
  /** Opens an empty store. */
  open(): Promise<AccessStore>;
}

const NOW_MS = 1_795_996_352_123;
const FILES = { deployment: 'review', trigger: 'files' };
const REFUSAL = { code: 'trigger/refused-file', message: 'it is a \0 link' };

function makeEvent(place: string, changes: Partial<SourceEvent> = {}): SourceEvent {
  return { ...FILES, place: place.repeat(64), content: 'f'.repeat(64), state: '1', ...changes };
}

export function testSources({ name, open }: SourceSubject): void {
  describe(`sources ${name}`, () => {
    let access: AccessStore;
    beforeEach(async () => {
      access = await open();
      await access.triggers.deployments.deploy(makeVersion('review'), { isPaused: false });
      onTestFinished(() => access.close());
    });

    test('a trigger begins once for a place, and again for another one', async () => {
      const { sources } = access.triggers;
      expect(await sources.begin(FILES, '/srv/a', NOW_MS)).toBe(NOW_MS);
      expect(await sources.begin(FILES, '/srv/a', NOW_MS + 5)).toBe(NOW_MS);
      expect(await sources.begin({ ...FILES, trigger: 'rows' }, '/srv/a', NOW_MS + 6)).toBe(NOW_MS + 6);
      expect(await sources.begin(FILES, '/srv/b', NOW_MS + 7)).toBe(NOW_MS + 7);
    });

    test('a trigger that is not among the enabled ones begins again', async () => {
      const { sources } = access.triggers;
      const rows = { ...FILES, trigger: 'rows' };
      await sources.begin(FILES, '/srv/a', NOW_MS);
      await sources.begin(rows, '/srv/a', NOW_MS);
      await sources.keepOnly([rows]);
      expect(await sources.begin(FILES, '/srv/a', NOW_MS + 5)).toBe(NOW_MS + 5);
      expect(await sources.begin(rows, '/srv/a', NOW_MS + 5)).toBe(NOW_MS);
      await sources.keepOnly([]);
      expect(await sources.begin(rows, '/srv/a', NOW_MS + 9)).toBe(NOW_MS + 9);
    });

    test('an event has one delivery, also if several processes accept it at once', async () => {
      const { sources, deliveries } = access.triggers;
      const accept = (): ReturnType<typeof sources.acceptOnce> =>
        sources.acceptOnce(makeEvent('a'), makeDelivery({ trigger: 'files', isOrdered: true }));
      const answers = await Promise.all([accept(), accept(), accept()]);
      expect(answers.filter(({ isNew }) => isNew)).toHaveLength(1);
      const [row, ...others] = await deliveries.list({ limit: 9, trigger: 'files' });
      expect([row?.state, others]).toEqual(['accepted', []]);
      expect(new Set(answers.map(({ delivery }) => delivery))).toEqual(new Set([row?.id]));
    });

    test('another content, place, trigger or deployment is another event', async () => {
      const { sources, deliveries } = access.triggers;
      const events = [
        makeEvent('a'),
        makeEvent('b'),
        makeEvent('a', { content: '0' }),
        makeEvent('a', { trigger: 'other' }),
        makeEvent('a', { deployment: 'other' }),
      ];
      for (const event of events)
        expect(await sources.acceptOnce(event, makeDelivery({ trigger: 'files' }))).toMatchObject({
          isNew: true,
        });
      expect(await deliveries.list({ limit: 9, trigger: 'files' })).toHaveLength(events.length);
    });

    test('a refused event has a delivery with the reason, which no process claims', async () => {
      const { sources, deliveries } = access.triggers;
      const delivery = makeDelivery({ trigger: 'files', refusal: REFUSAL });
      await sources.acceptOnce(makeEvent('a'), delivery);
      expect(await deliveries.find(delivery.id)).toMatchObject({ state: 'refused', dueAtMs: null, ...REFUSAL });
      expect(await deliveries.claim({ token: 't', nowMs: NOW_MS + 9, leaseMs: 9, limit: 9 })).toEqual([]);
      expect(await sources.acceptOnce(makeEvent('a'), makeDelivery())).toEqual({
        isNew: false,
        delivery: delivery.id,
      });
    });

    test('an event that is skipped starts nothing later', async () => {
      const { sources, deliveries } = access.triggers;
      await sources.skip([makeEvent('a'), makeEvent('b')], NOW_MS);
      await sources.skip([makeEvent('b')], NOW_MS);
      await sources.skip([], NOW_MS);
      expect(await sources.acceptOnce(makeEvent('b'), makeDelivery({ trigger: 'files' }))).toEqual({
        isNew: false,
        delivery: null,
      });
      expect(await deliveries.list({ limit: 9, trigger: 'files' })).toEqual([]);
    });

    test('the states at a place are found, and can be replaced', async () => {
      const { sources } = access.triggers;
      const [a, b] = [makeEvent('a'), makeEvent('b')];
      await sources.skip([a, b, makeEvent('a', { trigger: 'other' })], NOW_MS);
      await sources.acceptOnce(makeEvent('a', { content: '0' }), makeDelivery());
      await sources.renew(FILES, [{ place: a.place, content: a.content, state: 'a \\ 2' }], NOW_MS);
      const seen = await sources.findSeen(FILES, [a.place]);
      expect(seen.toSorted((one, other) => (one.content < other.content ? -1 : 1))).toEqual([
        { place: a.place, content: '0', state: '1' },
        { place: a.place, content: a.content, state: 'a \\ 2' },
      ]);
      expect(await sources.findSeen(FILES, [])).toEqual([]);
    });

    test('an event is forgotten 90 days after it was last seen', async () => {
      const { sources } = access.triggers;
      const [a, b] = [makeEvent('a'), makeEvent('b')];
      await sources.skip([a, b], NOW_MS);
      await sources.renew(FILES, [b], NOW_MS + 1);
      await sources.sweep(NOW_MS + SOURCE_KEPT_MS - 1);
      expect(await sources.findSeen(FILES, [a.place, b.place])).toHaveLength(2);
      await sources.sweep(NOW_MS + SOURCE_KEPT_MS);
      expect((await sources.findSeen(FILES, [a.place, b.place])).map(({ place }) => place)).toEqual([b.place]);
    });

    test('a problem keeps its first time until it is over', async () => {
      const { sources } = access.triggers;
      const problem = { code: 'api/source-unavailable', message: 'gone \0' };
      await sources.report(FILES, null, NOW_MS);
      expect(await sources.listProblems('review')).toEqual([]);
      await sources.report(FILES, problem, NOW_MS);
      await sources.report(FILES, { ...problem, message: 'still gone' }, NOW_MS + 9);
      await sources.begin(FILES, '/srv/a', NOW_MS);
      expect(await sources.listProblems('review')).toEqual([
        { ...FILES, ...problem, message: 'still gone', sinceMs: NOW_MS },
      ]);
      await sources.report(FILES, { ...problem, code: 'host/disk-full' }, NOW_MS + 10);
      expect(await sources.listProblems('review')).toMatchObject([{ code: 'host/disk-full', sinceMs: NOW_MS + 10 }]);
      expect(await sources.listProblems('other')).toEqual([]);
      await sources.report(FILES, null, NOW_MS + 11);
      expect(await sources.listProblems('review')).toEqual([]);
      expect(await sources.begin(FILES, '/srv/a', NOW_MS + 12)).toBe(NOW_MS);
    });
  });
}
