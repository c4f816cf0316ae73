/** The follower over runs and an outbox in memory. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { AnyErrorCode } from '../../domain/errors/error-code.ts';
import type { RunEventBody, RunOutcome } from '../../domain/run/event.ts';
import type { TriggerStore } from '../../store/triggers.ts';
import { makeVersion } from '../../test/conformance/deployments.ts';
import { NOTIFY, settleDelivery } from '../../test/conformance/notifications.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import { followRuns, type RunFollower } from './follow-runs.ts';

const NOW_MS = 1_795_996_352_123;
const SECRET = 'canary-of-the-deployment';
const FAILURE = { code: 'stage/exit' as AnyErrorCode, message: `no ${SECRET}`, stderrTail: SECRET };
const OUTCOME: RunOutcome = { state: 'failed', failedStage: 'test', failure: FAILURE, output: null };

let triggers: TriggerStore;
let stores: ReturnType<typeof openMemoryStores>;
let nowMs: number;
let canReadSecrets: boolean;
let lines: string[];
let added: number;
let followers: RunFollower[];

beforeEach(async () => {
  triggers = createMemoryAccess().triggers;
  stores = openMemoryStores(new MemoryPlace());
  nowMs = NOW_MS;
  canReadSecrets = true;
  lines = [];
  added = 0;
  followers = [];
  const notify = { ...NOTIFY, lateAfterMs: 2 * 3_600_000 };
  await triggers.deployments.deploy(makeVersion('review', { notify, secrets: ['TOKEN'] }), { isPaused: false });
});
afterEach(async () => {
  for (const follower of followers) await follower.close();
});

function begin(mostFollowed = 4): RunFollower {
  const follower = followRuns({
    openTriggers: () => Promise.resolve(triggers),
    machine: createTestMachine(stores, { now: () => new Date(nowMs) }),
    readSecretValues: () => (canReadSecrets ? Promise.resolve({ TOKEN: SECRET }) : Promise.reject(new Error('no key'))),
    onAdded: () => (added += 1),
    log: (line) => lines.push(line),
    everyMs: 5,
    mostFollowed,
  });
  followers.push(follower);
  return follower;
}

const append = async (delivery: string, ...bodies: readonly RunEventBody[]): Promise<void> => {
  const events = bodies.map((body) => ({ id: `${body.type}-${JSON.stringify(body)}`, atMs: nowMs, body }));
  await stores.events.append(`review-${delivery}`, events);
};
const finish = (outcome: Partial<RunOutcome> = {}): RunEventBody => ({
  type: 'run-finished',
  outcome: { ...OUTCOME, ...outcome },
});
const SUCCEEDED = finish({ state: 'succeeded', failedStage: null, failure: null });
const ASKING: RunEventBody = {
  type: 'stage-asking',
  stage: 'approve',
  execKey: 'key',
  attempt: 1,
  question: { message: `Deploy ${SECRET}?`, by: [], fields: [], deadlineAtMs: null, onTimeout: 'reject' },
};
const listKinds = async (): Promise<readonly string[]> =>
  (await triggers.notifications.list({ limit: 99 })).map(({ message }) => message.kind).toReversed();
const awaitKinds = async (...kinds: readonly string[]): Promise<void> =>
  await expect.poll(listKinds, { timeout: 5_000 }).toEqual(kinds);
const awaitUnwatched = async (): Promise<void> =>
  await expect.poll(async () => (await triggers.notifications.listWatched(9)).length, { timeout: 5_000 }).toBe(0);

test('a failed run has a notification with its facts, without the secrets of the deployment', async () => {
  begin();
  await settleDelivery(triggers, 'd1');
  await append('d1', finish());
  await awaitKinds('failed');
  await awaitUnwatched();
  const [row] = await triggers.notifications.list({ limit: 1 });
  expect(row).toMatchObject({
    receiver: 'ops',
    state: 'waiting',
    message: { deployment: 'review', version: 1, trigger: 'push', delivery: 'd1', runId: 'review-d1', stage: 'test' },
  });
  expect(JSON.stringify(row)).not.toContain(SECRET);
  expect(added).toBe(1);
});

test('the first success after a failure has recovered', async () => {
  begin();
  for (const [id, body] of [
    ['d1', SUCCEEDED],
    ['d2', finish()],
    ['d3', SUCCEEDED],
    ['d4', SUCCEEDED],
  ] as const) {
    await settleDelivery(triggers, id);
    await append(id, body);
    await awaitUnwatched();
  }
  expect(await listKinds()).toEqual(['failed', 'recovered']);
});

test('a run that asks and is late has notifications, and continues', async () => {
  begin();
  await settleDelivery(triggers, 'd1');
  await append('d1', ASKING);
  await awaitKinds('asking');
  nowMs += 3_600_000;
  await awaitKinds('asking', 'waiting_long');
  nowMs += 3_600_000;
  await awaitKinds('asking', 'waiting_long', 'late');
  expect(JSON.stringify(await triggers.notifications.list({ limit: 9 }))).not.toContain(SECRET);
  await append('d1', SUCCEEDED);
  await awaitUnwatched();
  expect(await listKinds()).toHaveLength(3);
});

test('a successor continues where a process ended, and makes no notification twice', async () => {
  const first = begin();
  await settleDelivery(triggers, 'd1');
  await append('d1', ASKING);
  await awaitKinds('asking');
  await first.close();
  const answered = { type: 'stage-answered', stage: 'approve', execKey: 'key', outcome: 'succeeded' } as const;
  await append('d1', { ...answered, failure: null });
  nowMs += 3_600_000;
  begin();
  await append('d1', finish());
  await awaitKinds('asking', 'failed');
});

test('two services make each notification once', async () => {
  begin();
  begin();
  for (const id of ['d1', 'd2', 'd3']) {
    await settleDelivery(triggers, id);
    await append(id, ASKING, finish());
  }
  await awaitUnwatched();
  expect((await listKinds()).toSorted()).toEqual(['asking', 'asking', 'asking', 'failed', 'failed', 'failed']);
});

test('runs beyond the limit of followed ones are read at each look', async () => {
  begin(1);
  for (const id of ['d1', 'd2', 'd3']) await settleDelivery(triggers, id);
  await append('d3', ASKING);
  await awaitKinds('asking');
  await append('d2', finish());
  await awaitKinds('asking', 'failed');
});

test('nothing is written without the secrets that must be redacted', async () => {
  canReadSecrets = false;
  begin();
  await settleDelivery(triggers, 'd1');
  await append('d1', finish());
  await expect.poll(() => lines).toEqual(['notifications of run review-d1: no key']);
  expect(await listKinds()).toEqual([]);
  canReadSecrets = true;
  nowMs += 60_000;
  await awaitKinds('failed');
});

test('a delivery whose run could not start has failed', async () => {
  begin();
  await settleDelivery(triggers, 'd1', { kind: 'failed', code: 'cli/no-server', message: `no ${SECRET}` });
  await awaitKinds('failed');
  const [row] = await triggers.notifications.list({ limit: 1 });
  expect(row!.message).toMatchObject({ text: 'the run could not start', code: 'cli/no-server' });
  expect(row!.message.message).not.toContain(SECRET);
  await awaitUnwatched();
});

test('a run without events is no longer watched some time after its delivery has recorded its end', async () => {
  begin();
  await settleDelivery(triggers, 'd1');
  nowMs += 11 * 60_000;
  await triggers.deliveries.recordRunEnd({ id: 'd1', event: null, nowMs, createId: () => 'd2' });
  nowMs += 11 * 60_000;
  await awaitUnwatched();
  expect(await listKinds()).toEqual([]);
});
