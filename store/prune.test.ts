import { mkdtemp, readdir, rename, mkdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { DataRef } from '../domain/plan/plan.ts';
import { artifactPath, createFileArtifactStore } from './file/artifact-store.ts';
import { createFileEventStore, type FileEventStore } from './file/event-store.ts';
import { createFileRunRecords } from './file/run-records.ts';
import { prune, type PruneOptions } from './prune.ts';
import { bytesOf, chunksOf, finishedEvent, noticeEvent } from './suite.ts';

const HOUR_MS = 3_600_000;
const nowMs = Date.now();
let dir: string;
let events: FileEventStore;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'voidbox-prune-'));
  events = createFileEventStore(dir);
});
afterEach(async () => {
  events.close();
  await rm(dir, { recursive: true, force: true });
});

function options(change: Partial<PruneOptions>): PruneOptions {
  return { olderThanMs: null, keepLast: null, dryRun: false, nowMs, ...change };
}

async function finishedRun(runId: string, ageMs: number): Promise<void> {
  await events.append(runId, [noticeEvent('a'), { ...finishedEvent(), atMs: nowMs - ageMs }]);
}

async function artifact(text: string, ageMs: number): Promise<DataRef> {
  const ref = await createFileArtifactStore(dir).put(chunksOf(Buffer.from(text), 100), 'text/plain');
  const at = new Date(nowMs - ageMs);
  await utimes(artifactPath(join(dir, 'artifacts'), ref.sha256), at, at);
  return ref;
}

async function isStored(ref: DataRef): Promise<boolean> {
  return bytesOf(createFileArtifactStore(dir).open(ref)).then(
    () => true,
    () => false,
  );
}

test('takes finished runs away by age, and never one that is open', async () => {
  await finishedRun('old', 50 * HOUR_MS);
  await finishedRun('young', 1 * HOUR_MS);
  await events.append('open', [{ ...noticeEvent('a'), atMs: 0 }]);
  const report = await prune(dir, options({ olderThanMs: 24 * HOUR_MS }));
  expect(report.runs).toEqual(['old']);
  expect(await events.listRuns()).toEqual(['open', 'young']);
  expect(await readdir(join(dir, 'runs'))).toEqual(['open', 'young']);
});

test('keeps as many of the last as it is told', async () => {
  for (const [index, runId] of ['c', 'a', 'b'].entries()) await finishedRun(runId, (10 - index) * HOUR_MS);
  await events.append('open', [noticeEvent('a')]);
  expect((await prune(dir, options({ keepLast: 1 }))).runs).toEqual(['c', 'a']);
  expect(await events.listRuns()).toEqual(['b', 'open']);
});

test('says what would go and leaves it on a dry run', async () => {
  await finishedRun('old', 50 * HOUR_MS);
  await createFileRunRecords(dir).put('old', 'manifest', { refs: [await artifact('of old', 48 * HOUR_MS)] });
  const report = await prune(dir, options({ olderThanMs: 0, dryRun: true }));
  expect(report).toEqual({ runs: ['old'], artifacts: 1, artifactBytes: 6, youngArtifacts: 0, youngArtifactBytes: 0 });
  expect(await events.listRuns()).toEqual(['old']);
  expect(await prune(dir, options({ olderThanMs: 0 }))).toEqual(report);
  expect(await prune(dir, options({ olderThanMs: 0 }))).toEqual({ runs: [], artifacts: 0, artifactBytes: 0, youngArtifacts: 0, youngArtifactBytes: 0 });
});

test('removes artifacts that no run names, once they are a day old', async () => {
  const inRecord = await artifact('in a record', 48 * HOUR_MS);
  const inEvent = await artifact('in an event', 48 * HOUR_MS);
  const young = await artifact('young', 1 * HOUR_MS);
  const garbage = await artifact('garbage', 48 * HOUR_MS);
  await createFileRunRecords(dir).put('open', 'build/0/1', { output: inRecord });
  await events.append('open', [noticeEvent('a')]);
  await events.append('done', [
    { ...finishedEvent(), body: { type: 'run-finished', outcome: { state: 'succeeded', failedStage: null, failure: null, output: inEvent } } },
  ]);
  expect(await prune(dir, options({}))).toEqual({ runs: [], artifacts: 1, artifactBytes: 7, youngArtifacts: 1, youngArtifactBytes: 5 });
  expect([await isStored(inRecord), await isStored(inEvent), await isStored(young), await isStored(garbage)]).toEqual([true, true, true, false]);
});

test('finds a name across the borders of what it reads at once', async () => {
  const ref = await artifact('named late', 48 * HOUR_MS);
  for (const before of [65_500, 65_535, 65_536, 65_560]) {
    await createFileRunRecords(dir).put('open', 'plan', ['x'.repeat(before), ref.sha256]);
    expect((await prune(dir, options({}))).artifacts).toBe(0);
  }
  expect(await isStored(ref)).toBe(true);
});

test('keeps an artifact that is stored again while it is garbage', async () => {
  const garbage = await artifact('wanted again', 48 * HOUR_MS);
  const again = await createFileArtifactStore(dir).put(chunksOf(Buffer.from('wanted again'), 5), 'text/plain');
  expect(again.sha256).toBe(garbage.sha256);
  expect((await prune(dir, options({}))).artifacts).toBe(0);
  expect(await isStored(garbage)).toBe(true);
});

test('puts back what a killed prune had moved aside, and readers find it meanwhile', async () => {
  const ref = await artifact('moved aside', 48 * HOUR_MS);
  const home = join(dir, 'artifacts');
  await mkdir(join(home, '.trash'));
  await rename(artifactPath(home, ref.sha256), join(home, '.trash', ref.sha256));
  expect(await isStored(ref)).toBe(true);
  await createFileRunRecords(dir).put('open', 'x', ref);
  expect((await prune(dir, options({}))).artifacts).toBe(0);
  expect(await readdir(join(home, '.trash'))).toEqual([]);
  expect(await isStored(ref)).toBe(true);
});

test('clears what killed writers left, when it is a day old', async () => {
  const partial = join(dir, 'artifacts/.partial');
  await mkdir(partial, { recursive: true });
  await writeFile(join(partial, 'old'), 'x');
  await writeFile(join(partial, 'new'), 'x');
  const at = new Date(nowMs - 48 * HOUR_MS);
  await utimes(join(partial, 'old'), at, at);
  await prune(dir, options({}));
  expect(await readdir(partial)).toEqual(['new']);
});

test('takes two prunes at once', async () => {
  for (let index = 0; index < 20; index++) await finishedRun(`r${index}`, 50 * HOUR_MS);
  for (let index = 0; index < 20; index++) await artifact(`garbage ${index}`, 48 * HOUR_MS);
  const reports = await Promise.all([prune(dir, options({ olderThanMs: 0 })), prune(dir, options({ olderThanMs: 0 }))]);
  expect(reports[0]?.runs.length).toBe(20);
  expect(await events.listRuns()).toEqual([]);
  await prune(dir, options({}));
  const left = (await readdir(join(dir, 'artifacts'), { recursive: true })).filter((name) => /[0-9a-f]{64}$/.test(name));
  expect(left).toEqual([]);
});

test('has nothing to do in an empty state folder', async () => {
  expect(await prune(join(dir, 'absent'), options({ olderThanMs: 0 }))).toEqual({
    runs: [],
    artifacts: 0,
    artifactBytes: 0,
    youngArtifacts: 0,
    youngArtifactBytes: 0,
  });
});
