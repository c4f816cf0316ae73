import { expect, test } from 'vitest';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { openUploads } from '../../store/open-uploads.ts';
import type { Stores } from '../../store/stores.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { createTokenCaller } from '../../test/rig/access/token-caller.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import type { Caller } from '../access/authenticate.ts';
import type { Machine } from '../machine.ts';
import { actOnRuns, type ActionRequest, MOST_ACTIONS } from './act-on-runs.ts';

const OWNER: Caller = { kind: 'owner' };
const REQUEST: ActionRequest = { action: 'cancel', runs: [], isDry: false, variables: {}, key: null };

function machineOf(stores: Stores): Machine {
  return createTestMachine(stores);
}

/** Runs that have ended, so that a cancel finds their state and asks no server. */
async function leaveEnded(runIds: readonly string[]): Promise<Stores> {
  const stores = openMemoryStores(new MemoryPlace());
  const outcome = { state: 'succeeded', output: null, failure: null, failedStage: null, tolerated: [] } as const;
  for (const [at, runId] of runIds.entries()) {
    const events: NewRunEvent[] = [
      {
        id: 'a',
        atMs: at + 1,
        body: { type: 'run-admitted', name: 'x', kind: 'workflow', hostId: 'h', stages: [], outputStage: null },
      },
      { id: 'e', atMs: at + 2, body: { type: 'run-finished', outcome } },
    ];
    await stores.events.append(runId, events);
  }
  return stores;
}

async function readEvents(stores: Stores, runId: string): Promise<readonly NewRunEvent[]> {
  const events: NewRunEvent[] = [];
  for await (const { id, atMs, body } of stores.reader.read(runId, 0)) events.push({ id, atMs, body });
  return events;
}

async function act(change: Partial<ActionRequest>, stores: Stores, caller = OWNER) {
  const tools = { uploads: openUploads({ stateDir: '/nowhere/state' }), onProgress: () => undefined };
  return await actOnRuns({ ...REQUEST, ...change }, caller, tools, machineOf(stores));
}

function callerOf(runs: readonly string[]): Caller {
  return createTokenCaller({ runs });
}

test('each run has a result in the order of the request, also one that is refused', async () => {
  const { results, hasMore } = await act({ runs: ['b', 'none', 'a', 'b'] }, await leaveEnded(['a', 'b']));
  expect(results.map(({ runId, outcome, state, code }) => [runId, outcome, state, code])).toEqual([
    ['b', 'done', 'succeeded', null],
    ['none', 'refused', null, expect.any(String)],
    ['a', 'done', 'succeeded', null],
  ]);
  expect(hasMore).toBe(false);
});

test('a filter chooses the runs of a list', async () => {
  const stores = await leaveEnded(['a', 'b']);
  const { results } = await act({ runs: { state: 'succeeded' } }, stores);
  expect(results.map(({ runId }) => runId)).toEqual(['b', 'a']);
  expect((await act({ runs: { name: 'other' } }, stores)).results).toEqual([]);
});

test('a token changes no run that it may not see, by its id or by a filter', async () => {
  const stores = await leaveEnded(['ci-1', 'other']);
  const caller = callerOf(['ci-*']);
  const named = await act({ runs: ['ci-1', 'other'] }, stores, caller);
  expect(named.results.map(({ outcome, code }) => [outcome, code])).toEqual([
    ['done', null],
    ['refused', 'api/not-allowed'],
  ]);
  const filtered = await act({ runs: { state: 'succeeded' } }, stores, caller);
  expect(filtered.results.map(({ runId }) => runId)).toEqual(['ci-1']);
});

test('a dry run plans what is there, and refuses what is not', async () => {
  const { results } = await act({ runs: ['a', 'none'], isDry: true }, await leaveEnded(['a']));
  expect(results.map(({ outcome, code }) => [outcome, code])).toEqual([
    ['planned', null],
    ['refused', 'api/no-run'],
  ]);
});

test('a retry of a run that cannot be retried is refused with its reason', async () => {
  const { results } = await act({ action: 'retry', runs: ['a'] }, await leaveEnded(['a']));
  expect(results).toMatchObject([{ outcome: 'refused', code: 'origin/unknown', startedRunId: null }]);
});

test('a bug in one run leaves the results of the others', async () => {
  const stores = await leaveEnded(['a', 'b', 'c']);
  const reader: typeof stores.reader = {
    ...stores.reader,
    read: (runId, after, options) => {
      if (runId === 'b') throw new TypeError('x is not a function');
      return stores.reader.read(runId, after, options);
    },
  };
  const broken = { ...stores, reader };
  const { results } = await act({ runs: ['a', 'b', 'c'] }, broken);
  expect(results.map(({ outcome, code }) => [outcome, code])).toEqual([
    ['done', null],
    ['refused', 'api/bug'],
    ['done', null],
  ]);
});

test('one request changes at most 1,000 runs', async () => {
  const ids = Array.from({ length: MOST_ACTIONS + 1 }, (_, at) => `r${at}`);
  const stores = await leaveEnded(ids);
  const all = await act({ runs: ids.slice(1) }, stores);
  expect([all.results.length, all.hasMore]).toEqual([1_000, false]);
  await expect(act({ runs: ids }, stores)).rejects.toThrow('1001 runs are more than 1000');
  const filtered = await act({ runs: { state: 'succeeded' } }, stores);
  expect([filtered.results.length, filtered.hasMore]).toEqual([1_000, true]);
});

test('a request with a key acts on the runs that it has chosen first, also if others match its filter later', async () => {
  const stores = await leaveEnded(['a']);
  const request = { runs: { state: 'succeeded' }, key: 'k' } as const;
  const first = await act(request, stores);
  const [begin, end] = await readEvents(stores, 'a');
  await stores.events.append('b', [begin!, end!]);
  expect(await act(request, stores)).toEqual(first);
  expect(first.results.map(({ runId }) => runId)).toEqual(['a']);
  expect((await act({ ...request, key: null }, stores)).results).toHaveLength(2);
  expect((await act(request, stores, callerOf([]))).results, 'the key of another starter').toHaveLength(2);
});

test('another request with the same key is refused, and changes nothing', async () => {
  const stores = await leaveEnded(['a', 'b']);
  await act({ runs: ['a'], key: 'k' }, stores);
  for (const change of [{ runs: ['a', 'b'] }, { runs: { state: 'succeeded' } }, { action: 'retry' }] as const)
    await expect(act({ runs: ['a'], key: 'k', ...change }, stores)).rejects.toMatchObject({ code: 'api/key-reused' });
  await expect(act({ runs: ['a'], key: 'a key' }, stores)).rejects.toMatchObject({ code: 'api/invalid-request' });
});

test('a dry run leaves its key free, and no key is a run', async () => {
  const stores = await leaveEnded(['a', 'b']);
  await act({ runs: ['b'], key: 'k', isDry: true }, stores);
  expect((await act({ runs: ['a'], key: 'k' }, stores)).results).toMatchObject([{ runId: 'a', outcome: 'done' }]);
  expect((await stores.index.listIds({ prefix: '', limit: 9 })).ids).toHaveLength(2);
});

test('on a full disk a request with a key cancels, and retries nothing', async () => {
  const stores = await leaveEnded(['a']);
  const create = () => Promise.reject(Object.assign(new Error('no space'), { code: 'ENOSPC' }));
  const full = { ...stores, records: { ...stores.records, create } };
  expect((await act({ runs: ['a'], key: 'k' }, full)).results).toMatchObject([{ outcome: 'done' }]);
  await expect(act({ action: 'retry', runs: ['a'], key: 'k' }, full)).rejects.toThrow('no space');
});

test('two requests with one key at once act on the same runs', async () => {
  const stores = await leaveEnded(['a', 'b']);
  const both = await Promise.allSettled([
    act({ runs: ['a'], key: 'k' }, stores),
    act({ runs: ['b'], key: 'k' }, stores),
  ]);
  expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
});
