/** The promises of every index of runs, whatever its backend. */
import { afterEach, describe, expect, test } from 'vitest';
import type { IdPage, IdQuery, RunPage, RunPosition, RunQuery } from '../../../activities/ports/run-index.ts';
import type { NewRunEvent, RunOutcome } from '../../../domain/run/event.ts';
import { readAllRuns } from '../../../store/every-run.ts';
import { noticeEvent, outputEvent, type RunsSubject } from '../store.ts';
import type { OpenedRuns } from './opened-runs.ts';

function admitted(name: string, atMs: number): NewRunEvent {
  const body = { type: 'run-admitted', name, kind: 'workflow', hostId: 'h', stages: [], outputStage: null } as const;
  return { id: 'run/admitted', atMs, body };
}

function ended(state: RunOutcome['state'], atMs: number): NewRunEvent {
  const outcome = { state, failedStage: null, failure: null, output: null };
  return { id: 'run/finished', atMs, body: { type: 'run-finished', outcome } };
}

export function describeRunIndex(subject: Omit<RunsSubject, 'factoryModule' | 'roundTrips'>): void {
  describe(`${subject.name}: run index`, () => {
    let location: string;
    let dispose: () => Promise<void>;
    const opened: OpenedRuns[] = [];
    async function fresh(): Promise<OpenedRuns> {
      ({ location, dispose } = await subject.place());
      return another();
    }
    async function another(): Promise<OpenedRuns> {
      const store = await subject.open(location);
      opened.push(store);
      return store;
    }
    afterEach(async () => {
      await Promise.all(opened.splice(0).map((store) => store.close()));
      await dispose();
    });

    test('holds nothing before a run has events', async () => {
      const { index } = await fresh();
      expect(await index.list({ limit: 10 })).toEqual({ runs: [], next: null });
      expect(await index.openRuns()).toEqual([]);
      expect(await index.idsFrom('')).toEqual([]);
      expect(await index.has('r')).toBe(false);
    });

    test('shows the state of a run after each event, from any writer', async () => {
      const { index } = await fresh();
      const writer = await another();
      const [run] = await watch([noticeEvent('a')]);
      expect(run).toEqual({ ...NOTHING, runId: 'r', label: 'r', state: 'running', startedAtMs: 1_000 });
      const [admittedRun] = await watch([admitted('sales', 1_100), outputEvent('a/0/1', 0, 'x'.repeat(2_000))]);
      expect(admittedRun).toEqual({ ...run, name: 'sales' });
      expect(await index.openRuns()).toEqual(['r']);
      const [endedRun] = await watch([ended('failed', 5_000), noticeEvent('late')]);
      expect(endedRun).toEqual({ ...admittedRun, state: 'failed', endedAtMs: 5_000 });
      expect(await index.openRuns()).toEqual([]);

      async function watch(events: readonly NewRunEvent[]): Promise<RunPage['runs']> {
        await writer.append('r', events);
        const { runs } = await index.list({ limit: 10 });
        expect((await (await another()).index.list({ limit: 10 })).runs).toEqual(runs);
        return runs;
      }
    });

    test('lists the latest first, by page, and none twice while new ones come', async () => {
      const store = await fresh();
      // Two start in the same millisecond: only their ids order them.
      const starts = { a: 100, b: 300, c: 200, d: 300, e: 500 };
      for (const [runId, atMs] of Object.entries(starts)) await store.append(runId, [admitted('n', atMs)]);
      const latestFirst = ['e', 'd', 'b', 'c', 'a'];
      expect(await store.index.idsFrom('')).toEqual(latestFirst);
      expect(idsOf(await store.index.list({ limit: 10 }))).toEqual(latestFirst);
      for (const limit of [1, 2, 3, 5]) expect(await everyPage(store, { limit })).toEqual(latestFirst);

      for (const limit of [1, 2, 3, 5]) expect(await everyId(store, { prefix: '', limit })).toEqual(latestFirst);
      const isWanted = (runId: string): boolean => runId !== 'd';
      for (const limit of [1, 2, 4])
        expect(await everyId(store, { prefix: '', limit, isWanted })).toEqual(['e', 'b', 'c', 'a']);
      expect(await store.index.listIds({ prefix: 'b', limit: 1 })).toEqual({ ids: ['b'], next: null });
      await expect(store.index.listIds({ prefix: '', limit: 0 })).rejects.toThrow('at least 1');
      const ids = await store.index.listIds({ prefix: '', limit: 2 });
      const first = await store.index.list({ limit: 2 });
      await store.append('new', [admitted('n', 900)]);
      expect(idsOf(await (await another()).index.list({ limit: 2, before: first.next! }))).toEqual(['b', 'c']);
      const behind = await (await another()).index.listIds({ prefix: '', limit: 2, before: ids.next! });
      expect(behind.ids).toEqual(['b', 'c']);
    });

    test('finds runs by state and by name, over pages', async () => {
      const store = await fresh();
      const states = ['succeeded', 'failed', 'cancelled', 'terminated', null] as const;
      for (let at = 0; at < 20; at++) {
        const state = states[at % states.length] ?? null;
        await store.append(`r${at}`, [admitted(at % 2 === 0 ? 'even' : 'odd', at)]);
        if (state !== null) await store.append(`r${at}`, [ended(state, 1_000)]);
      }
      expect(await everyPage(store, { state: 'failed', limit: 3 })).toEqual(['r16', 'r11', 'r6', 'r1']);
      expect(await everyPage(store, { state: 'running', limit: 1 })).toEqual(['r19', 'r14', 'r9', 'r4']);
      expect(await store.index.openRuns()).toEqual(['r19', 'r14', 'r9', 'r4']);
      expect(await everyPage(store, { name: 'odd', state: 'succeeded', limit: 10 })).toEqual(['r15', 'r5']);
      expect(await everyPage(store, { name: 'od', limit: 10 })).toEqual([]);
      expect(await everyPage(store, { state: 'damaged', limit: 10 })).toEqual([]);
    });

    test('finds runs that started since a moment, that moment included', async () => {
      const store = await fresh();
      for (const at of [1, 2, 3]) await store.append(`r${at}`, [admitted('sales', at * 1_000), ended('failed', 9_000)]);
      expect((await store.index.list({ sinceMs: 2_000, limit: 10 })).runs.map(({ runId }) => runId)).toEqual([
        'r3',
        'r2',
      ]);
      const { runs, next } = await store.index.list({ sinceMs: 2_000, limit: 1 });
      expect(runs.map(({ runId }) => runId)).toEqual(['r3']);
      expect((await store.index.list({ sinceMs: 2_000, limit: 1, before: next! })).next).toBeNull();
      expect(await store.index.list({ sinceMs: 3_001, limit: 10 })).toEqual({ runs: [], next: null });
    });

    test('knows ids of any text, whole and by their beginning', async () => {
      const store = await fresh();
      const ids = ['a', 'a/b', 'a%2Fb', '..', 'x'.repeat(1_000), '実'.repeat(300)];
      for (const [at, runId] of ids.entries()) await store.append(runId, [admitted('n', at)]);
      for (const runId of ids) expect(await store.index.has(runId)).toBe(true);
      for (const text of ['', 'x', 'a/', 'x'.repeat(1_001), '\ud800']) expect(await store.index.has(text)).toBe(false);
      expect(await store.index.idsFrom('a')).toEqual(['a%2Fb', 'a/b', 'a']);
      expect(await store.index.idsFrom('実')).toEqual(['実'.repeat(300)]);
      expect(await store.index.idsFrom('b')).toEqual([]);
      expect(await everyPage(store, { limit: 2 })).toEqual(ids.toReversed());
    });

    test('every run is found once, over pages of any size', async () => {
      const store = await fresh();
      for (let at = 0; at < 7; at++) await store.append(`r${at}`, [admitted(at % 2 === 0 ? 'even' : 'odd', at)]);
      await store.append('r6', [ended('failed', 1_000)]);
      const idsIn = async (query: Pick<RunQuery, 'state' | 'name'>, pageRuns?: number): Promise<unknown[]> => {
        const ids: unknown[] = [];
        for await (const { runId } of readAllRuns(store.index, query, pageRuns)) ids.push(runId);
        return ids;
      };
      const all = ['r6', 'r5', 'r4', 'r3', 'r2', 'r1', 'r0'];
      for (const pageRuns of [1, 2, 3, 7, 8, undefined]) expect(await idsIn({}, pageRuns)).toEqual(all);
      expect(await idsIn({ state: 'running', name: 'even' }, 2)).toEqual(['r4', 'r2', 'r0']);
      expect(await idsIn({ name: 'none' }, 2)).toEqual([]);
    });

    test.each([0, -1, Number.NaN])('refuses pages of %d runs', async (limit) => {
      const { index } = await fresh();
      await expect(index.list({ limit })).rejects.toThrow(RangeError);
    });
  });
}

const NOTHING = { name: null, startedAtMs: null, endedAtMs: null, problem: null };

function idsOf({ runs }: RunPage): readonly (string | null)[] {
  return runs.map(({ runId }) => runId);
}

/** The ids of all pages; only the last page may be short. */
async function everyPage({ index }: OpenedRuns, query: RunQuery): Promise<readonly (string | null)[]> {
  const ids: (string | null)[] = [];
  let before: RunPosition | null = null;
  do {
    // A cursor travels as text.
    const asked: RunQuery =
      before === null ? query : { ...query, before: JSON.parse(JSON.stringify(before)) as RunPosition };
    const page = await index.list(asked);
    expect(page.runs.length).toBeLessThanOrEqual(query.limit);
    expect(page.next === null || page.runs.length === query.limit, 'a page that is not the last is full').toBe(true);
    ids.push(...idsOf(page));
    expect(ids.length, 'pages without end').toBeLessThan(1_000);
    before = page.next;
  } while (before !== null);
  return ids;
}

async function everyId({ index }: OpenedRuns, query: IdQuery): Promise<readonly string[]> {
  const ids: string[] = [];
  let before: RunPosition | null = null;
  do {
    const page: IdPage = await index.listIds(
      before === null ? query : { ...query, before: JSON.parse(JSON.stringify(before)) as RunPosition },
    );
    expect(page.ids.length).toBeLessThanOrEqual(query.limit);
    ids.push(...page.ids);
    expect(ids.length, 'pages without end').toBeLessThan(1_000);
    before = page.next;
  } while (before !== null);
  return ids;
}
