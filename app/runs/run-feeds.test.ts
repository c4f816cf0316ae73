import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { RunReader } from '../../activities/ports/run-reader.ts';
import type { NewRunEvent, RunEvent } from '../../domain/run/event.ts';
import type { Stores } from '../../store/stores.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { createRunFeeds, type RunFeeds } from './run-feeds.ts';

interface Watched {
  readonly stores: Stores;
  readonly feeds: RunFeeds;
  /** The signals of readers that follow in the store. */
  readonly followed: AbortSignal[];
  /** How often events of the past were read. */
  reads(): number;
}

function watch(keptBytes?: number, change: Partial<RunReader> = {}): Watched {
  const stores = openMemoryStores(new MemoryPlace());
  const followed: AbortSignal[] = [];
  let reads = 0;
  const reader: RunReader = {
    read(runId, after, options) {
      reads += 1;
      return stores.reader.read(runId, after, options);
    },
    follow(runId, after, signal, options) {
      followed.push(signal);
      return stores.reader.follow(runId, after, signal, options);
    },
    ...change,
  };
  return { stores, feeds: createRunFeeds(() => Promise.resolve(reader), keptBytes), followed, reads: () => reads };
}

function skipped(count: number): NewRunEvent {
  return { id: `stage/s${count}/skipped`, atMs: 0, body: { type: 'stage-skipped', stage: `s${count}`, reason: 'r' } };
}

const FINISHED: NewRunEvent = {
  id: 'run/finished',
  atMs: 0,
  body: { type: 'run-finished', outcome: { state: 'cancelled', failedStage: null, failure: null, output: null } },
};

async function collect(events: AsyncIterable<RunEvent>): Promise<readonly number[]> {
  const seqs: number[] = [];
  for await (const { seq } of events) seqs.push(seq);
  return seqs;
}

function range(from: number, to: number): readonly number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}

test('twenty readers of a run have each event once, from one reader of the store', async () => {
  const { stores, feeds, followed } = watch();
  await stores.events.append('a', [skipped(1), skipped(2)]);
  const readers = range(0, 19).map((index) => collect(feeds.follow('a', index % 3, new AbortController().signal)));
  await sleep(20);
  for (let count = 3; count <= 9; count += 1) await stores.events.append('a', [skipped(count)]);
  await stores.events.append('a', [FINISHED]);
  for (const [index, seqs] of (await Promise.all(readers)).entries()) expect(seqs).toEqual(range(1 + (index % 3), 10));
  expect(followed).toHaveLength(1);
});

test('a reader that is slower than the kept events has each event once, and ends', async () => {
  const { stores, feeds, followed, reads } = watch(1);
  await stores.events.append('a', [skipped(1)]);
  const slow = feeds.follow('a', 0, new AbortController().signal);
  const fast = collect(feeds.follow('a', 0, new AbortController().signal));
  await slow.next();
  const second = slow.next();
  await sleep(5);
  await stores.events.append('a', [skipped(2)]);
  expect((await second).value).toMatchObject({ seq: 2 });
  for (let count = 3; count <= 20; count += 1) await stores.events.append('a', [skipped(count)]);
  await stores.events.append('a', [FINISHED]);
  expect(await fast).toEqual(range(1, 21));
  expect(reads()).toBe(2);
  expect(await collect(slow)).toEqual(range(3, 21));
  expect(reads()).toBe(3);
  expect(followed).toHaveLength(1);
});

test('a reader that joins later has the events of the past from a reader of its own', async () => {
  const { stores, feeds, followed } = watch();
  const { signal } = new AbortController();
  const first = collect(feeds.follow('a', 0, signal));
  for (let count = 1; count <= 5; count += 1) await stores.events.append('a', [skipped(count)]);
  await sleep(5);
  const later = [collect(feeds.follow('a', 0, signal)), collect(feeds.follow('a', 4, signal))];
  await sleep(5);
  await stores.events.append('a', [skipped(6), FINISHED]);
  expect(await first).toEqual(range(1, 7));
  expect(await Promise.all(later)).toEqual([range(1, 7), range(5, 7)]);
  expect(followed).toHaveLength(1);
});

test('a reader that has the last event already, or a later cursor, ends without an event', async () => {
  const { stores, feeds } = watch();
  const { signal } = new AbortController();
  await stores.events.append('a', [skipped(1), FINISHED]);
  expect(await collect(feeds.follow('a', 2, signal))).toEqual([]);
  expect(await collect(feeds.follow('a', 99, signal))).toEqual([]);
});

test('a reader whose cursor is ahead of the run takes no event from others, and gets those after its cursor', async () => {
  const { stores, feeds, followed } = watch();
  const { signal } = new AbortController();
  await stores.events.append('a', [skipped(1), skipped(2)]);
  const ahead = collect(feeds.follow('a', 4, signal));
  await sleep(5);
  const others = [0, 1, 2].map((after) => collect(feeds.follow('a', after, signal)));
  await sleep(5);
  for (let count = 3; count <= 5; count += 1) await stores.events.append('a', [skipped(count)]);
  await stores.events.append('a', [FINISHED]);
  expect(await Promise.all(others)).toEqual([range(1, 6), range(2, 6), range(3, 6)]);
  expect(await ahead).toEqual([5, 6]);
  expect(followed).toHaveLength(2);
});

test('a reader whose cursor is ahead of the run ends with its signal', async () => {
  const { stores, feeds, followed } = watch();
  await stores.events.append('a', [skipped(1)]);
  const leaving = new AbortController();
  const ahead = collect(feeds.follow('a', 999_999_999_999_999, leaving.signal));
  await sleep(5);
  leaving.abort();
  expect(await ahead).toEqual([]);
  expect(followed).toHaveLength(1);
});

test('the reader of the store ends with the last reader, and another one starts for the next', async () => {
  const { stores, feeds, followed } = watch();
  await stores.events.append('a', [skipped(1)]);
  const leaving = [new AbortController(), new AbortController()];
  const readers = leaving.map(({ signal }) => collect(feeds.follow('a', 0, signal)));
  await sleep(5);
  leaving[0]!.abort();
  await readers[0];
  expect(followed.map(({ aborted }) => aborted)).toEqual([false]);
  leaving[1]!.abort();
  await readers[1];
  expect(followed.map(({ aborted }) => aborted)).toEqual([true]);
  const next = collect(feeds.follow('a', 0, new AbortController().signal));
  await stores.events.append('a', [FINISHED]);
  expect(await next).toEqual([1, 2]);
});

test('a reader that stops to read leaves the feed, too', async () => {
  const { stores, feeds, followed } = watch();
  await stores.events.append('a', [skipped(1)]);
  const events = feeds.follow('a', 0, new AbortController().signal);
  await events.next();
  const waiting = events.next();
  await sleep(5);
  await stores.events.append('a', [skipped(2)]);
  await waiting;
  await events.return(undefined);
  expect(followed.map(({ aborted }) => aborted)).toEqual([true]);
});

test('an error of the store reaches every reader', async () => {
  const { stores, feeds } = watch(undefined, {
    follow: async function* () {
      await sleep(5);
      yield { ...skipped(2), seq: 2 };
      throw new Error('damaged');
    },
  });
  const { signal } = new AbortController();
  await stores.events.append('a', [skipped(1)]);
  const readers = [collect(feeds.follow('a', 0, signal)), collect(feeds.follow('a', 1, signal))];
  for (const result of await Promise.allSettled(readers))
    expect(result).toMatchObject({ status: 'rejected', reason: { message: 'damaged' } });
});
