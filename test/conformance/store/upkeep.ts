/** The promises of every store about pruning, inspecting and setting runs aside, whatever its backend. */
import { describe, expect, test } from 'vitest';
import type { PruneOptions } from '../../../activities/ports/run-pruner.ts';
import type { DataRef } from '../../../domain/plan/plan.ts';
import type { NewRunEvent } from '../../../domain/run/event.ts';
import type { Stores } from '../../../store/stores.ts';
import { bytesOf, chunksOf, collect, noticeEvent } from '../store.ts';
import { type StoresSubject, usePlaces } from './subject.ts';

const DAY_MS = 86_400_000;

function admitted(atMs: number): NewRunEvent {
  const body = {
    type: 'run-admitted',
    name: 'n',
    kind: 'workflow',
    hostId: 'h',
    stages: [],
    outputStage: null,
  } as const;
  return { id: 'run/admitted', atMs, body };
}

function ended(atMs: number): NewRunEvent {
  const outcome = { state: 'succeeded', failedStage: null, failure: null, output: null } as const;
  return { id: 'run/finished', atMs, body: { type: 'run-finished', outcome } };
}

async function addRun({ events }: Stores, runId: string, endedAtMs: number | null): Promise<void> {
  await events.append(runId, [admitted(1_000), ...(endedAtMs === null ? [] : [ended(endedAtMs)])]);
}

function textOf({ artifacts }: Stores, text: string): Promise<DataRef> {
  return artifacts.put(chunksOf(Buffer.from(text), 3), 'text/plain');
}

function options(change: Partial<PruneOptions> = {}): PruneOptions {
  return { olderThanMs: null, keepLast: null, dryRun: false, nowMs: Date.now(), ...change };
}

export function describeRunPruner(subject: StoresSubject): void {
  describe(`${subject.name}: pruning`, () => {
    const open = usePlaces(subject);

    test('a run that ended long ago is removed whole, and others stay', async () => {
      const { stores, another } = await open();
      const nowMs = Date.now();
      await addRun(stores, 'old', nowMs - 10 * DAY_MS);
      await addRun(stores, 'new', nowMs - DAY_MS);
      await addRun(stores, 'open', null);
      await stores.records.put('old', 'notes', { a: 1 });
      await stores.hostVariables.put('old', { TOKEN: 'x' });
      const { pruner } = await another();
      const report = await pruner.prune(options({ olderThanMs: 7 * DAY_MS, nowMs }));
      expect(report).toMatchObject({ runs: ['old'], removed: [{ runId: 'old' }], damaged: [] });
      expect(report.runBytes).toBeGreaterThan(0);
      expect(await stores.index.idsFrom('')).toEqual(expect.arrayContaining(['new', 'open']));
      expect(await stores.index.has('old')).toBe(false);
      expect(await collect(stores.reader.read('old', 0))).toEqual([]);
      expect(await stores.records.get('old', 'notes')).toBeNull();
      expect(await stores.hostVariables.get('old')).toEqual({});
      // The id may be used again.
      const fresh = await another();
      expect(await fresh.events.append('old', [noticeEvent('again')])).toBe(1);
    });

    test('each option protects runs, and without options every run stays', async () => {
      const { stores } = await open();
      const nowMs = Date.now();
      for (const [at, runId] of ['a', 'b', 'c'].entries()) await addRun(stores, runId, nowMs - (9 - at) * DAY_MS);
      const prune = async (change: Partial<PruneOptions>): Promise<readonly string[]> =>
        (await stores.pruner.prune(options({ nowMs, dryRun: true, ...change }))).runs;
      expect(await prune({})).toEqual([]);
      expect(await prune({ keepLast: 1 })).toEqual(['a', 'b']);
      expect(await prune({ olderThanMs: 8.5 * DAY_MS })).toEqual(['a']);
      expect(await prune({ olderThanMs: 1, keepLast: 2 })).toEqual(['a']);
      // Nothing was removed so far.
      expect(await stores.index.idsFrom('')).toHaveLength(3);
      expect(await prune({ keepLast: 0, dryRun: false })).toEqual(['a', 'b', 'c']);
      expect(await stores.index.idsFrom('')).toEqual([]);
    });

    test('two prunes at once remove each run once', async () => {
      const { stores, another } = await open();
      const runIds = Array.from({ length: 10 }, (_, at) => `r${at}`);
      for (const runId of runIds) await addRun(stores, runId, 2_000);
      const reports = await Promise.all(
        [stores, await another()].map(({ pruner }) => pruner.prune(options({ olderThanMs: 0 }))),
      );
      expect(reports.flatMap(({ runs }) => runs).toSorted()).toEqual(runIds);
    });

    test('an artifact goes when no record or event names it, and a day after it was stored', async () => {
      const { stores } = await open();
      await addRun(stores, 'r', 2_000);
      const [named, told, unnamed] = await Promise.all(
        ['named', 'told', 'unnamed'].map((text) => textOf(stores, text)),
      );
      await stores.records.put('r', 'notes', { ref: named });
      const outcome = { state: 'succeeded', failedStage: null, failure: null, output: told! } as const;
      await stores.events.append('s', [
        admitted(1_000),
        { id: 'run/finished', atMs: Date.now() + 9 * DAY_MS, body: { type: 'run-finished', outcome } },
      ]);
      const sizeBytes = 'unnamed'.length;
      expect(await stores.pruner.prune(options())).toMatchObject({
        artifacts: 0,
        youngArtifacts: 1,
        youngArtifactBytes: sizeBytes,
      });
      const later = options({ nowMs: Date.now() + 2 * DAY_MS });
      expect(await stores.pruner.prune({ ...later, dryRun: true })).toMatchObject({ artifacts: 1 });
      expect(await stores.artifacts.claim(unnamed!)).toBe(true);
      expect(await stores.pruner.prune(later)).toMatchObject({
        artifacts: 1,
        artifactBytes: sizeBytes,
        youngArtifacts: 0,
      });
      expect(await stores.artifacts.claim(unnamed!)).toBe(false);
      await expect(bytesOf(stores.artifacts.open(unnamed!))).rejects.toMatchObject({ code: 'store/damaged' });
      expect((await bytesOf(stores.artifacts.open(named!))).toString()).toBe('named');
      // An artifact goes with the run that names it.
      expect(await stores.pruner.prune({ ...later, olderThanMs: DAY_MS })).toMatchObject({ runs: ['r'], artifacts: 1 });
      expect(await stores.artifacts.claim(named!)).toBe(false);
      expect((await bytesOf(stores.artifacts.open(told!))).toString()).toBe('told');
    });

    test('artifacts that were stored since an open run began stay, also with `artifactsNow`', async () => {
      const { stores } = await open();
      const ref = await textOf(stores, 'x');
      const beganAtMs = Date.now() - 60_000;
      await stores.events.append('r', [admitted(beganAtMs)]);
      const now = options({ artifactsNow: true, nowMs: Date.now() + 60_000 });
      expect(await stores.pruner.prune(now)).toMatchObject({ artifacts: 0, youngArtifacts: 1 });
      await stores.events.append('r', [ended(Date.now())]);
      expect(await stores.pruner.prune(now)).toMatchObject({ artifacts: 1, youngArtifacts: 0 });
      expect(await stores.artifacts.claim(ref)).toBe(false);
    });
  });
}

export function describeRunInspector(subject: StoresSubject): void {
  describe(`${subject.name}: inspection`, () => {
    const open = usePlaces(subject);
    const PLAN = { name: 'n' };

    test('whole runs are not damaged, and inspection changes nothing of them', async () => {
      const { stores } = await open();
      await addRun(stores, 'r', 2_000);
      await addRun(stores, 's', null);
      await stores.records.put('r', 'notes', PLAN);
      expect(await stores.inspector.findDamaged()).toEqual([]);
      await stores.inspector.checkMainRecords('r', 2);
      await stores.inspector.refuseSetAside('r');
      expect(await stores.index.idsFrom('')).toHaveLength(2);
    });

    test('a damaged run is found, and stays when others are pruned', async () => {
      const { location, stores } = await open();
      await addRun(stores, 'r', 2_000);
      await addRun(stores, 's', 2_000);
      await subject.damage(location, 'r');
      const [run, ...others] = await stores.inspector.findDamaged();
      expect(others).toEqual([]);
      expect(run).toMatchObject({ runId: 'r', label: 'r', problem: { code: 'store/damaged' } });
      expect(run!.place).not.toBe('');
      await expect(stores.inspector.checkMainRecords('r', 2)).rejects.toMatchObject({ code: 'store/damaged' });
      await stores.inspector.checkMainRecords('s', 2);
      await expect(stores.records.get('r', 'plan')).rejects.toMatchObject({ code: 'store/damaged' });
      expect(await stores.inspector.mayBeBeginning(run!)).toBe(false);
    });

    test('a run that is set aside is away, and its id is refused until it is removed from there', async () => {
      const { location, stores, another } = await open();
      await addRun(stores, 'r', 2_000);
      await addRun(stores, 's', 2_000);
      await subject.damage(location, 'r');
      const [run] = await stores.inspector.findDamaged();
      expect(await stores.inspector.setAside(run!)).not.toBe(run!.place);
      const fresh = await another();
      expect(await fresh.inspector.findDamaged()).toEqual([]);
      expect(await fresh.index.idsFrom('')).toEqual(['s']);
      const refusal = { code: 'store/damaged' };
      await expect(fresh.inspector.refuseSetAside('r')).rejects.toMatchObject(refusal);
      await expect(fresh.records.get('r', 'admission')).rejects.toMatchObject(refusal);
      await expect(fresh.records.put('r', 'notes', 1)).rejects.toMatchObject(refusal);
      await expect(fresh.records.create('r', 'notes', 1)).rejects.toMatchObject(refusal);
      await expect(fresh.events.append('r', [noticeEvent('a')])).rejects.toMatchObject(refusal);
    });

    test('what a run that was set aside names stays when artifacts are pruned', async () => {
      const { location, stores } = await open();
      await addRun(stores, 'r', 2_000);
      const ref = await textOf(stores, 'x');
      await stores.records.put('r', 'notes', { ref });
      await subject.damage(location, 'r');
      const [run] = await stores.inspector.findDamaged();
      await stores.inspector.setAside(run!);
      await stores.pruner.prune(options({ olderThanMs: 0, nowMs: Date.now() + 9 * DAY_MS }));
      expect(await stores.artifacts.claim(ref)).toBe(true);
    });
  });
}
