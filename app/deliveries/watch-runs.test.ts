/** The watch of runs over stores in memory: each end becomes one delivery for each trigger that follows it. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { RunOutcome } from '../../domain/run/event.ts';
import type { DeliveryRow, TriggerStore } from '../../store/triggers.ts';
import type { Stores } from '../../store/stores.ts';
import { makeVersion } from '../../test/conformance/deployments.ts';
import { followTrigger } from '../../test/conformance/run-ends.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { endNextDelivery } from '../../test/rig/runs/end-delivery.ts';
import { stageResult } from '../../test/rig/runs/stage-results.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import { acceptDelivery } from './accept.ts';
import { type RunWatch, watchRuns } from './watch-runs.ts';

let triggers: TriggerStore;
let stores: Stores;
let watches: RunWatch[];
let lines: string[];
let holds: string[];
/** The deliveries that follow an end, at the time of each call. */
let before: number[];
const held = {
  async hold(sha256: string): Promise<void> {
    before.push((await listFollowing()).length);
    holds.push(sha256);
  },
};

beforeEach(async () => {
  triggers = createMemoryAccess().triggers;
  stores = openMemoryStores(new MemoryPlace());
  watches = [];
  lines = [];
  holds = [];
  before = [];
  await triggers.deployments.deploy(makeVersion('build'), { isPaused: false });
});
afterEach(async () => void (await Promise.all(watches.map((watch) => watch.close()))));

function watch(change: Partial<Stores> = {}): void {
  watches.push(
    watchRuns({
      openTriggers: () => Promise.resolve(triggers),
      held,
      machine: createTestMachine({ ...stores, ...change }),
      onEnded: () => undefined,
      log: (line) => lines.push(line),
      everyMs: 5,
    }),
  );
}

async function runOnce(state: RunOutcome['state'], deployment = 'build'): Promise<string> {
  const event = { deployment, version: 1, trigger: 'push', isOrdered: false, contentType: 'text/plain' };
  const id = await acceptDelivery(
    { ...event, body: Buffer.from('') },
    { deliveries: triggers.deliveries, nowMs: () => Date.now(), wake: () => undefined },
  );
  await endNextDelivery({ deliveries: triggers.deliveries, stores }, { state });
  return id;
}

async function* chunksOf(text: string): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(Buffer.from(text));
}

async function listFollowing(): Promise<readonly DeliveryRow[]> {
  return (await triggers.deliveries.list({ limit: 99 })).filter(({ upstream }) => upstream !== null);
}

test('two services make one delivery of an end, with its facts', async () => {
  const report = makeVersion('report', { triggers: [followTrigger('build', ['failed'])] });
  await triggers.deployments.deploy(report, { isPaused: false });
  const id = await runOnce('failed');
  watch();
  watch();
  await expect.poll(async () => (await triggers.deliveries.find(id))?.runEndedAtMs).not.toBeNull();
  await expect.poll(async () => (await listFollowing()).length).toBe(1);
  const [made] = await listFollowing();
  expect(made).toMatchObject({ deployment: 'report', state: 'accepted', upstream: { delivery: id, links: 1 } });
  const body: unknown = JSON.parse(Buffer.from((await triggers.deliveries.readBody(made!.id))!).toString());
  expect(body).toMatchObject({ run: `build-${id}`, state: 'failed' });
});

test('an output that is the input of another run is held before the end is recorded, and no other output is', async () => {
  const wanted = followTrigger('build', ['succeeded']);
  const source = { kind: 'run', of: 'build', states: ['succeeded'], output: 'compile' } as const;
  const other = { ...source, states: ['failed'], output: 'log' } as const;
  const rules = [
    { ...wanted, name: 'one', source },
    { ...wanted, name: 'two', source },
    { ...wanted, name: 'three', source: other },
  ];
  await triggers.deployments.deploy(makeVersion('report', { triggers: rules }), { isPaused: false });
  const event = { deployment: 'build', version: 1, trigger: 'push', isOrdered: false, contentType: 'text/plain' };
  const tools = { deliveries: triggers.deliveries, nowMs: () => Date.now(), wake: () => undefined };
  const id = await acceptDelivery({ ...event, body: Buffer.from('') }, tools);
  const put = async (text: string) => await stores.artifacts.put(chunksOf(text), 'text/plain');
  const [output, log] = [await put('a program'), await put('a log')];
  await stores.events.append(
    `build-${id}`,
    (['compile', 'log'] as const).map((stage) => {
      const execKey = `${stage}/0/1`;
      const result = stageResult(execKey, { output: stage === 'log' ? log : output });
      return { id: stage, atMs: 1, body: { type: 'stage-finished', stage, execKey, result } };
    }),
  );
  await endNextDelivery({ deliveries: triggers.deliveries, stores }, {});
  watch();
  await expect.poll(async () => (await listFollowing()).length).toBe(2);
  expect(holds).toEqual([output.sha256]);
  expect(before).toEqual([0]);
});

test('an end that follows another one is recorded after a short pause', async () => {
  const first = await runOnce('succeeded');
  let second: Promise<string> | undefined;
  watches.push(
    watchRuns({
      openTriggers: () => Promise.resolve(triggers),
      held,
      machine: createTestMachine(stores),
      onEnded: () => void (second ??= runOnce('succeeded')),
      log: (line) => lines.push(line),
      everyMs: 60 * 60_000,
      busyMs: 200,
    }),
  );
  await expect.poll(async () => (await triggers.deliveries.find(first))?.runEndedAtMs).not.toBeNull();
  await expect.poll(async () => (await triggers.deliveries.find(await second!))?.runEndedAtMs).not.toBeNull();
});

test('an end in another state, and one that no trigger follows, only gives room', async () => {
  const report = makeVersion('report', { triggers: [followTrigger('build', ['succeeded'])] });
  await triggers.deployments.deploy(report, { isPaused: false });
  const ids = [await runOnce('cancelled')];
  await triggers.deployments.deploy(makeVersion('test'), { isPaused: false });
  ids.push(await runOnce('succeeded', 'test'));
  watch();
  for (const id of ids)
    await expect.poll(async () => (await triggers.deliveries.find(id))?.runEndedAtMs).not.toBeNull();
  expect(await listFollowing()).toEqual([]);
});

test('an end whose facts cannot be read is found again, and stops no other', async () => {
  const report = makeVersion('report', { triggers: [followTrigger('build', ['succeeded'])] });
  await triggers.deployments.deploy(report, { isPaused: false });
  const [first, second] = [await runOnce('succeeded'), await runOnce('succeeded')];
  let isBroken = true;
  const { index } = stores;
  let asks = 0;
  watch({
    index: {
      ...index,
      has: async (runId) => {
        // The watch asks first, and then the reader of the facts.
        if (runId === `build-${first}` && isBroken && (asks += 1) % 2 === 0)
          throw new Error('the disk does not answer');
        return await index.has(runId);
      },
    },
  });
  await expect.poll(async () => (await triggers.deliveries.find(second))?.runEndedAtMs).not.toBeNull();
  await expect.poll(() => lines.join()).toContain(`end of the run build-${first}: the disk does not answer`);
  expect(await triggers.deliveries.find(first)).toMatchObject({ runEndedAtMs: null });
  isBroken = false;
  await expect.poll(async () => (await listFollowing()).length).toBe(2);
});
