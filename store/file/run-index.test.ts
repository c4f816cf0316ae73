import { appendFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { RunIndex } from '../../activities/ports/run-index.ts';
import { finishedEvent, noticeEvent, outputEvent } from '../../test/conformance/store.ts';
import { createFileEventLog, type FileEventLog } from './event-log.ts';
import { createFileRunIndex, summaryOf } from './run-index.ts';

let dir: string;
let log: FileEventLog;
let index: RunIndex;
/** Ids of the runs whose whole logs were read. */
let reads: string[];

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'voidbox-index-'));
  log = createFileEventLog(dir, 'process');
  reads = [];
  index = createFileRunIndex(dir, (stateDir, runId) => {
    reads.push(runId);
    return summaryOf(stateDir, runId);
  });
});
afterEach(async () => {
  await log.close();
  await rm(dir, { recursive: true, force: true });
});

function fileOf(runId: string): string {
  return join(dir, 'runs', runId, 'events.jsonl');
}

test('reads a log once, and again only after it has grown', async () => {
  for (const runId of ['a', 'b', 'c']) await log.append(runId, [noticeEvent('x')]);
  await log.append('a', [finishedEvent()]);
  for (let round = 0; round < 3; round++) {
    expect(await index.openRuns()).toEqual(['c', 'b']);
    expect((await index.list({ limit: 10 })).runs).toHaveLength(3);
  }
  expect(reads.toSorted()).toEqual(['a', 'b', 'c']);
  await log.append('b', [finishedEvent()]);
  expect(await index.openRuns()).toEqual(['c']);
  expect(reads.slice(3)).toEqual(['b']);
});

test('reads only the logs of a page whole', async () => {
  for (let at = 0; at < 9; at++) await log.append(`r${at}`, [{ ...noticeEvent('x'), atMs: 1_000 + at }]);
  expect((await index.list({ limit: 2 })).runs.map(({ runId }) => runId)).toEqual(['r8', 'r7']);
  expect(reads).toEqual(['r8', 'r7']);
  expect(await index.idsFrom('r')).toHaveLength(9);
  expect(reads).toHaveLength(2);
});

test('a pruned run is gone, and a new run with its id is another run', async () => {
  await log.append('r', [{ ...noticeEvent('x'), atMs: 5 }, finishedEvent()]);
  expect((await index.list({ limit: 1 })).runs).toMatchObject([{ startedAtMs: 5, state: 'succeeded' }]);
  await rm(join(dir, 'runs/r'), { recursive: true });
  expect((await index.list({ limit: 1 })).runs).toEqual([]);
  const again = createFileEventLog(dir, 'process');
  await again.append('r', [{ ...noticeEvent('x'), atMs: 9 }]);
  await again.close();
  expect((await index.list({ limit: 1 })).runs).toMatchObject([{ startedAtMs: 9, state: 'running' }]);
});

test('damage counts wherever it is, also after the last event and in a log that was read before', async () => {
  await log.append('r', [noticeEvent('x'), finishedEvent()]);
  expect((await index.list({ limit: 1 })).runs).toMatchObject([{ state: 'succeeded', endedAtMs: 2_000 }]);
  await appendFile(fileOf('r'), '{"commit":9,"seq":9,"by":"x","events":[]}\n');
  expect((await index.list({ limit: 1 })).runs).toEqual([
    {
      runId: 'r',
      label: 'r',
      name: null,
      state: 'damaged',
      startedAtMs: 1_000,
      endedAtMs: null,
      problem: expect.stringContaining('events.jsonl is damaged'),
    },
  ]);
  expect((await index.list({ state: 'succeeded', limit: 1 })).runs).toEqual([]);
});

test('runs that cannot be read are listed first, under their ids or the names of their folders', async () => {
  await log.append('well', [{ ...noticeEvent('x'), atMs: Date.now() }]);
  await mkdir(fileOf('a-folder'), { recursive: true });
  const hashed = `%long-${'a'.repeat(64)}`;
  await mkdir(join(dir, 'runs', hashed));
  const { runs } = await index.list({ limit: 10 });
  expect(runs.map(({ runId, label, state }) => [runId, label, state])).toEqual([
    ['a-folder', 'a-folder', 'damaged'],
    [null, hashed, 'damaged'],
    ['well', 'well', 'running'],
  ]);
  expect((await index.list({ state: 'damaged', limit: 10 })).runs.map(({ problem }) => problem)).toEqual([
    expect.stringContaining('it is not a file'),
    expect.stringContaining('the id of the run is missing'),
  ]);
  expect(await index.openRuns()).toEqual(['well']);
  expect(await index.has('a-folder')).toBe(true);
});

test('a log without an event is a run that begins, and is listed after all others', async () => {
  await log.append('r', [noticeEvent('x')]);
  await mkdir(join(dir, 'runs/begins'));
  await writeFile(fileOf('begins'), '');
  expect((await index.list({ limit: 10 })).runs.map(({ runId, startedAtMs }) => [runId, startedAtMs])).toEqual([
    ['r', 1_000],
    ['begins', null],
  ]);
  expect(await index.openRuns()).toEqual(['r', 'begins']);
});

test('the index does not read the output of commands', async () => {
  await log.append('r', [noticeEvent('x'), outputEvent('a/0/1', 0, 'x'.repeat(5_000)), finishedEvent()]);
  await rm(join(dir, 'runs/r/output'), { recursive: true });
  expect((await index.list({ limit: 1 })).runs).toMatchObject([{ state: 'succeeded' }]);
});
