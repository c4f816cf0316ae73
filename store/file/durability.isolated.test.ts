/** Isolated, because it replaces `node:fs` in modules that other files load. */
import type * as Fs from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { finishedEvent, noticeEvent, outputEvent } from '../../test/conformance/store.ts';
import { stageResult } from '../../test/rig/runs/stage-results.ts';
import { openStores } from '../open-stores.ts';
import { createFileEventLog } from './event-log.ts';

const disk = vi.hoisted(() => ({
  synced: [] as string[],
  folders: [] as string[],
  hold: null as RegExp | null,
  held: [] as (() => void)[],
}));

vi.mock('node:fs', async (original) => {
  const fs = await original<typeof Fs>();
  return {
    ...fs,
    fdatasync(fd: number, done: (error: NodeJS.ErrnoException | null) => void) {
      const path = fs.readlinkSync(`/proc/self/fd/${fd}`);
      disk.synced.push(path);
      const go = (): void => fs.fdatasync(fd, done);
      if (disk.hold?.test(path) === true) disk.held.push(go);
      else go();
    },
    fsync(fd: number, done: (error: NodeJS.ErrnoException | null) => void) {
      const path = fs.readlinkSync(`/proc/self/fd/${fd}`);
      if (fs.fstatSync(fd).isDirectory()) disk.folders.push(path);
      fs.fsync(fd, done);
    },
  };
});

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'voidbox-durability-'));
  disk.synced = [];
  disk.folders = [];
  disk.hold = null;
  disk.held = [];
});
afterEach(() => rm(dir, { recursive: true, force: true }));

function stageFinished(stage: string): NewRunEvent {
  const execKey = `${stage}/0/1`;
  const result = stageResult(execKey);
  return { id: `stage/${execKey}/finished`, atMs: 1, body: { type: 'stage-finished', stage, execKey, result } };
}

const admitted: NewRunEvent = {
  id: 'run/admitted',
  atMs: 1,
  body: { type: 'run-admitted', name: 'n', kind: 'workflow', hostId: 'h', stages: [], outputStage: null },
};

function logSyncs(): number {
  return disk.synced.filter((path) => path.endsWith('events.jsonl')).length;
}

test('the death of processes costs no wait for the disk: only the ends of a run wait', async () => {
  const store = createFileEventLog(dir, 'process');
  await store.append('r', [admitted]);
  expect(logSyncs()).toBe(1);
  for (const stage of ['a', 'b', 'c']) await store.append('r', [stageFinished(stage)]);
  expect(logSyncs()).toBe(1);
  await store.append('r', [finishedEvent()]);
  expect(logSyncs()).toBe(2);
  await store.close();
});

test('against a power cut each result is on the disk, and results that come together wait together', async () => {
  const store = createFileEventLog(dir, 'power');
  await store.append('r', [admitted]);
  await store.append('r', [stageFinished('a')]);
  expect(logSyncs()).toBe(2);
  await Promise.all(Array.from({ length: 20 }, (_, index) => store.append('r', [stageFinished(`s${index}`)])));
  expect(logSyncs()).toBeGreaterThan(2);
  expect(logSyncs()).toBeLessThanOrEqual(5);
  await store.append('r', [noticeEvent('x')]);
  expect(logSyncs()).toBeLessThanOrEqual(5);
  await store.close();
});

test('a result is written only after the output before it is on the disk, also when another append already waits for that', async () => {
  const store = createFileEventLog(dir, 'power');
  await store.append('r', [admitted, outputEvent('a/0/1', 0, 'x'.repeat(5_000))]);
  disk.hold = /\/output\//;
  const both = Promise.all([store.append('r', [stageFinished('a')]), store.append('r', [stageFinished('b')])]);
  await expect.poll(() => disk.held.length).toBe(1);
  // A wait for an absence: a longer one would find more, and none fails a correct build.
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(await readFile(join(dir, 'runs/r/events.jsonl'), 'utf8')).not.toContain('stage-finished');
  disk.hold = null;
  for (const go of disk.held) go();
  await both;
  expect((await readFile(join(dir, 'runs/r/events.jsonl'), 'utf8')).match(/"type":"stage-finished"/g)?.length).toBe(2);
  await store.close();
});

test('the files of a start wait once for the folder of the run, and the claim of its process waits for no folder', async () => {
  const { records, marks, hostVariables, close } = await openStores({ stateDir: dir });
  expect(await records.create('r', 'start', { process: 'x', nonce: 'y' }, { lasts: false })).toBe(true);
  expect(disk.folders).toEqual([]);
  await Promise.all([
    records.put('r', 'source', { path: null, text: '', params: {}, mode: null }),
    marks.put('r', 'client', { baseDir: '/' }),
    hostVariables.put('r', { A: 'b' }),
  ]);
  const run = join(dir, 'runs/r');
  // Names survive a power cut: those of the run, of its records' folder and of each file.
  expect(disk.folders.toSorted()).toEqual([dir, join(dir, 'runs'), run, run, `${run}/records`, `${run}/records`]);
  await close();
});
