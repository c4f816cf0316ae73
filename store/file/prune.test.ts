import { existsSync, statSync } from 'node:fs';
import { mkdtemp, readdir, rename, mkdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { DataRef } from '../../domain/plan/plan.ts';
import { artifactPath } from './artifact-store.ts';
import { openStores } from '../open-stores.ts';
import { findCheckpoints, findRunUploads } from '../state-folder.ts';
import type { Stores } from '../stores.ts';
import type { PruneOptions } from '../../activities/ports/run-pruner.ts';
import { prune } from './prune.ts';
import { bytesOf, chunksOf, finishedEvent, noticeEvent } from '../../test/conformance/store.ts';

const HOUR_MS = 3_600_000;
const NOTHING = {
  runs: [],
  removed: [],
  runBytes: 0,
  damaged: [],
  artifacts: 0,
  artifactBytes: 0,
  youngArtifacts: 0,
  youngArtifactBytes: 0,
};
const nowMs = Date.now();
let dir: string;
let stores: Stores;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'voidbox-prune-'));
  stores = await openStores({ stateDir: dir });
});
afterEach(async () => {
  await stores.close();
  await rm(dir, { recursive: true, force: true });
});

async function knownRuns(): Promise<readonly string[]> {
  return (await stores.index.idsFrom('')).toSorted();
}

function options(change: Partial<PruneOptions>): PruneOptions {
  return { olderThanMs: null, keepLast: null, dryRun: false, nowMs, ...change };
}

async function finishedRun(runId: string, ageMs: number): Promise<void> {
  await stores.events.append(runId, [noticeEvent('a'), { ...finishedEvent(), atMs: nowMs - ageMs }]);
}

async function artifact(text: string, ageMs: number): Promise<DataRef> {
  const ref = await stores.artifacts.put(chunksOf(Buffer.from(text), 100), 'text/plain');
  const at = new Date(nowMs - ageMs);
  await utimes(artifactPath(join(dir, 'artifacts'), ref.sha256), at, at);
  return ref;
}

async function isStored(ref: DataRef): Promise<boolean> {
  return bytesOf(stores.artifacts.open(ref)).then(
    () => true,
    () => false,
  );
}

test('removes finished runs by age, and never an open run', async () => {
  await finishedRun('old', 50 * HOUR_MS);
  await finishedRun('young', 1 * HOUR_MS);
  await stores.events.append('open', [{ ...noticeEvent('a'), atMs: 0 }]);
  const report = await prune(dir, options({ olderThanMs: 24 * HOUR_MS }));
  expect(report.runs).toEqual(['old']);
  expect(await knownRuns()).toEqual(['open', 'young']);
  expect(await readdir(join(dir, 'runs'))).toEqual(['open', 'young']);
});

test('keeps the last `keepLast` runs', async () => {
  for (const [index, runId] of ['c', 'a', 'b'].entries()) await finishedRun(runId, (10 - index) * HOUR_MS);
  await stores.events.append('open', [noticeEvent('a')]);
  expect((await prune(dir, options({ keepLast: 1 }))).runs).toEqual(['c', 'a']);
  expect(await knownRuns()).toEqual(['b', 'open']);
});

test('lists the data that would be removed on a dry run, and keeps it', async () => {
  await finishedRun('old', 50 * HOUR_MS);
  await stores.records.put('old', 'manifest', { refs: [await artifact('of old', 48 * HOUR_MS)] });
  const report = await prune(dir, options({ olderThanMs: 0, dryRun: true }));
  expect(report).toMatchObject({
    runs: ['old'],
    artifacts: 1,
    artifactBytes: 6,
    youngArtifacts: 0,
    youngArtifactBytes: 0,
  });
  expect(report.removed).toEqual([{ runId: 'old', sizeBytes: report.runBytes }]);
  const files = ['events.jsonl', 'records/manifest.json'].map((name) => statSync(join(dir, 'runs/old', name)).size);
  expect(report.runBytes).toBe(files.reduce((sum, size) => sum + size, 0));
  expect(await knownRuns()).toEqual(['old']);
  expect(await prune(dir, options({ olderThanMs: 0 }))).toEqual(report);
  expect(await prune(dir, options({ olderThanMs: 0 }))).toEqual(NOTHING);
});

test('removes artifacts that no run names, once they are a day old', async () => {
  const inRecord = await artifact('in a record', 48 * HOUR_MS);
  const inEvent = await artifact('in an event', 48 * HOUR_MS);
  const young = await artifact('young', 1 * HOUR_MS);
  const garbage = await artifact('garbage', 48 * HOUR_MS);
  await stores.records.put('open', 'build/0/1', { output: inRecord });
  await stores.events.append('open', [noticeEvent('a')]);
  await stores.events.append('done', [
    {
      ...finishedEvent(),
      body: {
        type: 'run-finished',
        outcome: { state: 'succeeded', failedStage: null, failure: null, output: inEvent },
      },
    },
  ]);
  expect(await prune(dir, options({}))).toEqual({
    ...NOTHING,
    artifacts: 1,
    artifactBytes: 7,
    youngArtifacts: 1,
    youngArtifactBytes: 5,
  });
  expect([await isStored(inRecord), await isStored(inEvent), await isStored(young), await isStored(garbage)]).toEqual([
    true,
    true,
    true,
    false,
  ]);
});

test('finds a name across the borders of what it reads at once', async () => {
  const ref = await artifact('named late', 48 * HOUR_MS);
  for (const before of [65_500, 65_535, 65_536, 65_560]) {
    await stores.records.put('open', 'plan', ['x'.repeat(before), ref.sha256]);
    expect((await prune(dir, options({}))).artifacts).toBe(0);
  }
  expect(await isStored(ref)).toBe(true);
});

test('keeps an artifact that is stored again while it is garbage', async () => {
  const garbage = await artifact('wanted again', 48 * HOUR_MS);
  const again = await stores.artifacts.put(chunksOf(Buffer.from('wanted again'), 5), 'text/plain');
  expect(again.sha256).toBe(garbage.sha256);
  expect((await prune(dir, options({}))).artifacts).toBe(0);
  expect(await isStored(garbage)).toBe(true);
});

test('puts back what a killed prune had moved aside, and readers find it until then', async () => {
  const ref = await artifact('moved aside', 48 * HOUR_MS);
  const home = join(dir, 'artifacts');
  await mkdir(join(home, '.trash'));
  await rename(artifactPath(home, ref.sha256), join(home, '.trash', ref.sha256));
  expect(await isStored(ref)).toBe(true);
  await stores.records.put('open', 'x', ref);
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

test('forgets the input and the source of a run that was never started after a day, and then the input goes', async () => {
  const input = await artifact('of a run that was never started', 48 * HOUR_MS);
  await stores.records.put('never', 'input', input);
  expect(await prune(dir, options({ artifactsNow: true }))).toMatchObject({ artifacts: 0 });
  const at = new Date(nowMs - 25 * HOUR_MS);
  await utimes(join(dir, 'runs/never/records/input.json'), at, at);
  const source = { path: null, text: 'kind: workflow', params: {}, mode: null };
  await stores.records.put('never', 'source', source);
  await utimes(join(dir, 'runs/never/records/source.json'), at, at);
  await stores.records.put('soon', 'source', source);
  expect(await prune(dir, options({}))).toMatchObject({ artifacts: 1 });
  expect(await stores.records.get('never', 'source')).toBeNull();
  expect(await stores.records.get('soon', 'source')).toEqual(source);
});

test('removes variables, claims and half files of a run that was never started after a day', async () => {
  await stores.hostVariables.put('never', { TOKEN: 'secret' });
  await stores.records.put('never', 'client', {});
  const run = join(dir, 'runs/never');
  const claim = { process: 'a|b|c|1|2', nonce: 'n' };
  for (const name of ['start', 'start-n', 'request']) await stores.records.put('never', name, claim);
  const old = [
    'host-variables.json',
    'records/start.json',
    'records/start-n.json',
    'records/request.json',
    'host-variables.json.0123456789ab.partial',
    'records/input.json.0123456789ab.partial',
  ];
  for (const name of old.slice(4)) await writeFile(join(run, name), '{"TOKEN":"sec');
  const at = new Date(nowMs - 25 * HOUR_MS);
  for (const name of old) await utimes(join(run, name), at, at);
  const young = 'records/source.json.0123456789ab.partial';
  await writeFile(join(run, young), '{');
  await prune(dir, options({}));
  expect((await readdir(run, { recursive: true })).toSorted()).toEqual(['records', 'records/client.json', young]);
});

test('removes the key of a request for many runs after a day, with its folder', async () => {
  const record = { hash: 'a', chosen: null };
  for (const id of ['actions-old', 'actions-new']) await stores.records.create(id, 'actions', record);
  const at = new Date(nowMs - 25 * HOUR_MS);
  await utimes(join(dir, 'runs/actions-old/records/actions.json'), at, at);
  expect((await prune(dir, options({}))).runs).toEqual([]);
  expect(await readdir(join(dir, 'runs'))).toEqual(['actions-new']);
});

test('removes the checkpoints of a run that was never started after a day, and keeps those of other runs', async () => {
  await finishedRun('finished', HOUR_MS);
  const at = new Date(nowMs - 25 * HOUR_MS);
  for (const runId of ['never', 'finished', 'soon']) {
    const checkpoints = findCheckpoints(dir, runId);
    await mkdir(join(checkpoints, '_shared/1'), { recursive: true });
    await writeFile(join(checkpoints, '_shared/1/disk'), 'disk');
    if (runId !== 'soon') await utimes(checkpoints, at, at);
  }
  await prune(dir, options({}));
  const left = ['never', 'finished', 'soon'].filter((runId) => existsSync(findCheckpoints(dir, runId)));
  expect(left).toEqual(['finished', 'soon']);
});

test('two prunes at once remove each run once, and each reports only the runs that it removed', async () => {
  for (let index = 0; index < 20; index++) await finishedRun(`r${index}`, 50 * HOUR_MS);
  for (let index = 0; index < 20; index++) await artifact(`garbage ${index}`, 48 * HOUR_MS);
  const reports = await Promise.all([prune(dir, options({ olderThanMs: 0 })), prune(dir, options({ olderThanMs: 0 }))]);
  const removed = reports.flatMap(({ runs }) => runs).toSorted();
  expect(removed).toEqual(Array.from({ length: 20 }, (_, index) => `r${index}`).toSorted());
  expect(reports.flatMap(({ damaged }) => damaged)).toEqual([]);
  expect(await knownRuns()).toEqual([]);
  await prune(dir, options({}));
  const left = (await readdir(join(dir, 'artifacts'), { recursive: true })).filter((name) =>
    /[0-9a-f]{64}$/.test(name),
  );
  expect(left).toEqual([]);
});

test('has nothing to do in an empty state folder', async () => {
  expect(await prune(join(dir, 'absent'), options({ olderThanMs: 0 }))).toEqual(NOTHING);
});

test('with both conditions removes only runs that both release', async () => {
  for (let index = 0; index < 20; index++)
    await finishedRun(`r${String(index).padStart(2, '0')}`, (40 - index) * HOUR_MS);
  const report = await prune(dir, options({ olderThanMs: HOUR_MS, keepLast: 15 }));
  expect(report.runs).toEqual(['r00', 'r01', 'r02', 'r03', 'r04']);
  expect((await prune(dir, options({ olderThanMs: 39 * HOUR_MS, keepLast: 2 }))).runs).toEqual([]);
  expect((await prune(dir, options({ olderThanMs: 30 * HOUR_MS, keepLast: 2 }))).runs).toEqual([
    'r05',
    'r06',
    'r07',
    'r08',
    'r09',
  ]);
});

describe('artifacts that go at once', () => {
  const MINUTE_MS = 60_000;

  test('include all that nothing names, except the artifacts of the last seconds', async () => {
    const garbage = await artifact('garbage', 2 * MINUTE_MS);
    const fresh = await artifact('just stored', 3_000);
    await finishedRun('done', HOUR_MS);
    expect(await prune(dir, options({ artifactsNow: true, dryRun: true }))).toMatchObject({
      artifacts: 2,
      youngArtifacts: 0,
    });
    expect(await prune(dir, options({ artifactsNow: true }))).toMatchObject({
      artifacts: 1,
      artifactBytes: 7,
      youngArtifacts: 1,
      youngArtifactBytes: 11,
    });
    expect([await isStored(garbage), await isStored(fresh)]).toEqual([false, true]);
  });

  test('go with the run that named them', async () => {
    const named = await artifact('of old', HOUR_MS);
    await stores.events.append('old', [
      {
        ...finishedEvent(),
        atMs: nowMs - HOUR_MS,
        body: {
          type: 'run-finished',
          outcome: { state: 'succeeded', failedStage: null, failure: null, output: named },
        },
      },
    ]);
    expect(await prune(dir, options({ artifactsNow: true, keepLast: 1 }))).toMatchObject({ runs: [], artifacts: 0 });
    expect(await prune(dir, options({ artifactsNow: true, keepLast: 0 }))).toMatchObject({
      runs: ['old'],
      artifacts: 1,
    });
    expect(await isStored(named)).toBe(false);
  });

  test('exclude artifacts that an open run may be about to name', async () => {
    await stores.events.append('open', [{ ...noticeEvent('a'), atMs: nowMs - HOUR_MS }]);
    const before = await artifact('from before', 2 * HOUR_MS);
    const during = await artifact('from the run', 30 * MINUTE_MS);
    expect(await prune(dir, options({ artifactsNow: true }))).toMatchObject({ artifacts: 1, youngArtifacts: 1 });
    expect([await isStored(before), await isStored(during)]).toEqual([false, true]);
    // The run claims the same bytes again: they count as new.
    const again = await artifact('stored before, wanted again', 2 * HOUR_MS);
    await stores.artifacts.put(chunksOf(Buffer.from('stored before, wanted again'), 9), 'text/plain');
    expect(await prune(dir, options({ artifactsNow: true }))).toMatchObject({ artifacts: 0, youngArtifacts: 2 });
    expect(await isStored(again)).toBe(true);
  });
});

describe('a damaged run', () => {
  beforeEach(async () => {
    await finishedRun('old', 50 * HOUR_MS);
    await finishedRun('hurt', 50 * HOUR_MS);
    await writeFile(join(dir, 'runs/hurt/events.jsonl'), '{"commit":2,"seq":2,"by":"x","events":[]}\n');
  });

  test('stays and is named, and the others go', async () => {
    expect(await prune(dir, options({ olderThanMs: HOUR_MS }))).toMatchObject({ runs: ['old'], damaged: ['hurt'] });
    expect(await readdir(join(dir, 'runs'))).toEqual(['hurt']);
  });

  test('keeps the artifacts that its files name, also when it is set aside', async () => {
    const named = await artifact('of the damaged run', 48 * HOUR_MS);
    await stores.records.put('hurt', 'manifest', { version: 1, refs: [named] });
    expect(await prune(dir, options({}))).toMatchObject({ artifacts: 0 });
    await mkdir(join(dir, 'damaged'));
    await rename(join(dir, 'runs/hurt'), join(dir, 'damaged/hurt'));
    expect(await prune(dir, options({}))).toMatchObject({ artifacts: 0, damaged: [] });
    expect(await isStored(named)).toBe(true);
  });
});

describe('uploads', () => {
  const old = new Date(nowMs - 25 * HOUR_MS);

  test('without a use for a day are deleted, others stay', async () => {
    await mkdir(join(dir, 'uploads'));
    for (const [letter, at] of [
      ['a', old],
      ['b', new Date(nowMs - HOUR_MS)],
    ] as const) {
      const path = join(dir, 'uploads', letter.repeat(64));
      await writeFile(path, 'bytes');
      await utimes(path, at, at);
    }
    await prune(dir, options({}));
    expect(await readdir(join(dir, 'uploads'))).toEqual(['b'.repeat(64)]);
  });

  test('that were unpacked for a run are deleted with the run, and those of a start that was killed after a day', async () => {
    await finishedRun('done', HOUR_MS);
    for (const run of ['done', 'killed', 'starting'])
      await mkdir(join(findRunUploads(dir, run), 'f', 'data'), { recursive: true });
    await utimes(join(findRunUploads(dir, 'killed'), 'f'), old, old);
    await prune(dir, options({}));
    expect(existsSync(join(findRunUploads(dir, 'done'), 'f', 'data'))).toBe(true);
    expect(existsSync(join(findRunUploads(dir, 'starting'), 'f', 'data'))).toBe(true);
    expect(existsSync(join(findRunUploads(dir, 'killed'), 'f'))).toBe(false);
    await prune(dir, options({ olderThanMs: 0 }));
    expect(existsSync(findRunUploads(dir, 'done'))).toBe(false);
  });

  test('stay as long as a retry of their run uses them', async () => {
    await finishedRun('done', HOUR_MS);
    await finishedRun('other', HOUR_MS);
    const folder = join(findRunUploads(dir, 'done'), 'f');
    await mkdir(folder, { recursive: true });
    await stores.events.append('retry', [noticeEvent('a')]);
    await stores.marks.put('retry', 'client', { baseDir: folder });
    expect((await prune(dir, options({ olderThanMs: 0 }))).runs).toEqual(['other']);
    expect(existsSync(folder)).toBe(true);
    await stores.events.append('retry', [{ ...finishedEvent(), atMs: nowMs - HOUR_MS }]);
    // The retry can be retried as long as it stays.
    expect((await prune(dir, options({ keepLast: 1 }))).runs).toEqual([]);
    expect(existsSync(folder)).toBe(true);
    expect((await prune(dir, options({ olderThanMs: 0 }))).runs.toSorted()).toEqual(['done', 'retry']);
  });

  test('stay as long as a run of the owner may mount them, also one that is not admitted yet', async () => {
    for (const runId of ['one', 'two']) await finishedRun(runId, HOUR_MS);
    const [one, two] = ['one', 'two'].map((runId) => join(findRunUploads(dir, runId), 'f'));
    // A retry of the first run has no event yet. The first run is itself a retry of the second one.
    await stores.marks.put('starting', 'client', { baseDir: '/specs', allow: ['/specs', one] });
    await stores.marks.put('one', 'client', { baseDir: two });
    expect((await prune(dir, options({ olderThanMs: 0 }))).runs).toEqual([]);
    await stores.marks.drop('starting', 'client');
    expect((await prune(dir, options({ olderThanMs: 0 }))).runs.toSorted()).toEqual(['one', 'two']);
  });
});
