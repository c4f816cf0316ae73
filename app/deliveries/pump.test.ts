/** The pump over stores in memory: each delivery gets its outcome, whatever fails on the way. */
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import type { ScheduledTime } from '../../domain/delivery/delivery.ts';
import { DEFAULT_DEDUPE_MS, type Trigger } from '../../domain/delivery/trigger.ts';
import { evaluateTrigger } from '../../domain/language/expression/evaluate-trigger.ts';
import type { DeliveryResult, TriggerStore } from '../../store/triggers.ts';
import { makeVersion, WEBHOOK } from '../../test/conformance/deployments.ts';
import { makeSchedule } from '../../test/conformance/schedules.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { acceptDelivery } from './accept.ts';
import { createEvaluateDelivery, type EvaluateDelivery } from './evaluate-delivery.ts';
import { type Pump, PUMP_LIMITS, type ReadyDelivery, startPump } from './pump.ts';

const LIMITS = { ...PUMP_LIMITS, idleMs: 5, failureMs: 5, renewMs: 2 };
const evaluateInPlace = createEvaluateDelivery({
  evaluateTrigger: (question) => Promise.resolve(evaluateTrigger(question)),
});

let triggers: TriggerStore;
let started: ReadyDelivery[];
let result: (ready: ReadyDelivery) => Promise<DeliveryResult>;
let evaluate: EvaluateDelivery;
let lines: string[];
let cancelled: string[];
let nowMs: number;
let pump: Pump | null;
let idles: number;

beforeEach(() => {
  triggers = createMemoryAccess().triggers;
  started = [];
  lines = [];
  cancelled = [];
  idles = 0;
  nowMs = 1_795_996_352_123;
  evaluate = evaluateInPlace;
  result = () => Promise.resolve({ kind: 'started' });
  pump = null;
});
afterEach(async () => await pump?.close());

async function deployTriggers(...rules: readonly Trigger[]): Promise<void> {
  await triggers.deployments.deploy(makeVersion('review', { triggers: rules }), { isPaused: false });
}

async function send(body: string, trigger = 'push', schedule: ScheduledTime | null = null): Promise<string> {
  const event = { deployment: 'review', version: 1, trigger, isOrdered: false, contentType: 'application/json' };
  return await acceptDelivery(
    { ...event, schedule, body: Buffer.from(body) },
    { deliveries: triggers.deliveries, nowMs: () => nowMs, wake: () => pump?.wake() },
  );
}

function begin(open: () => Promise<TriggerStore | null> = () => Promise.resolve(triggers)): void {
  pump = startPump({
    openTriggers: open,
    evaluate: (...asked) => evaluate(...asked),
    async start(ready) {
      started.push(ready);
      return await result(ready);
    },
    cancelRun: (runId) => Promise.resolve(void cancelled.push(runId)),
    nowMs: () => nowMs,
    log: (line) => lines.push(line),
    onIdle: () => Promise.resolve(void (idles += 1)),
    limits: LIMITS,
  });
}

async function awaitState(id: string, state: string): Promise<void> {
  await expect.poll(async () => (await triggers.deliveries.find(id))?.state).toBe(state);
}

test('a delivery starts a run of its version, with its payload and its parameters', async () => {
  await deployTriggers({ ...WEBHOOK, params: { number: '${{ input.n }}' } });
  begin();
  const id = await send('{"n": 1.0}');
  await awaitState(id, 'started');
  const [{ delivery, version, params, input }] = started as [ReadyDelivery];
  expect([delivery.id, delivery.runId, version.version, params]).toEqual([id, `review-${id}`, 1, { number: '1.0' }]);
  expect(Buffer.from(input).toString()).toBe('{"n": 1.0}');
  await expect.poll(() => idles).toBeGreaterThan(0);
});

test('deliveries that were accepted before the process began start too', async () => {
  await deployTriggers(WEBHOOK);
  const ids = [await send('1'), await send('2')];
  begin();
  for (const id of ids) await awaitState(id, 'started');
  expect(started).toHaveLength(2);
});

test('a delivery whose condition does not hold is filtered, and one of an unknown trigger is refused', async () => {
  await deployTriggers({ ...WEBHOOK, when: 'input.ok' });
  begin();
  const [filtered, unknown, bad] = [await send('{"ok":false}'), await send('{}', 'other'), await send('{')];
  await awaitState(filtered!, 'filtered');
  await awaitState(unknown!, 'refused');
  await awaitState(bad!, 'refused');
  expect((await triggers.deliveries.find(bad!))?.code).toBe('trigger/bad-payload');
  expect(started).toEqual([]);
});

test('a run that cannot start is refused with its reason, and a failed try is made again', async () => {
  await deployTriggers(WEBHOOK);
  const refusal = { kind: 'refused', code: 'spec/invalid', message: 'no' } as const;
  result = () => Promise.resolve(refusal);
  begin();
  const refused = await send('1');
  await awaitState(refused, 'refused');
  result = () =>
    Promise.resolve(
      started.length < 4 ? { kind: 'failed', code: 'cli/no-server', message: 'away' } : { kind: 'started' },
    );
  const tried = await send('2');
  await awaitState(tried, 'held');
  for (let tries = 0; tries < 20 && (await triggers.deliveries.find(tried))?.state !== 'started'; tries += 1) {
    nowMs += 60 * 60_000;
    pump!.wake();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await awaitState(tried, 'started');
  expect((await triggers.deliveries.find(tried))?.tries).toBeGreaterThan(0);
});

test('a bug in one delivery is a failed try of it, and the others start', async () => {
  await deployTriggers(WEBHOOK);
  evaluate = (trigger, delivery, body) => {
    if (Buffer.from(body).toString() === '"bad"') throw new TypeError('x is not a function');
    return evaluateInPlace(trigger, delivery, body);
  };
  begin();
  const [bad, good] = [await send('"bad"'), await send('"good"')];
  await awaitState(good!, 'started');
  await awaitState(bad!, 'held');
  expect(lines.join('\n')).toContain('x is not a function');
});

test('a database that is away is asked again', async () => {
  await deployTriggers(WEBHOOK);
  let asked = 0;
  begin(() => ((asked += 1) < 4 ? Promise.reject(new Error('away')) : Promise.resolve(triggers)));
  await awaitState(await send('1'), 'started');
  expect(lines).toEqual(['deliveries: away', 'deliveries: away', 'deliveries: away']);
});

test('a batch starts one run with a list of payloads', async () => {
  await deployTriggers({ ...WEBHOOK, batch: { key: null, size: 2, timeoutMs: 60_000 } });
  begin();
  const ids = [await send('{"n":18446744073709551615}'), await send('{"n":2}')];
  await expect.poll(() => started.length).toBe(1);
  expect(Buffer.from(started[0]!.input).toString()).toBe('[{"n":18446744073709551615},\n{"n":2}]');
  const states = await Promise.all(ids.map(async (id) => (await triggers.deliveries.find(id))?.state));
  expect(states.toSorted()).toEqual(['merged', 'started']);
});

test('a debounce takes the latest delivery, although its expressions are evaluated first', async () => {
  await deployTriggers({ ...WEBHOOK, debounce: { key: null, delayMs: 50, maxDelayMs: 500, take: 'last' } });
  evaluate = async (trigger, delivery, body) => {
    const pauseMs = 30 - 10 * Number(Buffer.from(body).toString());
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    return await evaluateInPlace(trigger, delivery, body);
  };
  const ids = [await send('1'), await send('2'), await send('3')];
  begin();
  await expect.poll(async () => (await triggers.deliveries.find(ids[2]!))?.state).toBe('held');
  nowMs += 50;
  pump!.wake();
  await awaitState(ids[2]!, 'started');
  expect(started.map(({ delivery }) => delivery.id)).toEqual([ids[2]]);
});

test('a start that takes longer than the lease keeps its claim', async () => {
  await deployTriggers(WEBHOOK);
  let end: () => void = () => undefined;
  result = () => new Promise((resolve) => (end = () => resolve({ kind: 'started' })));
  begin();
  const id = await send('1');
  await expect.poll(() => started.length).toBe(1);
  for (let looks = 0; looks < 5; looks += 1) {
    nowMs += LIMITS.leaseMs / 2;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  onTestFinished(() => end());
  expect(await triggers.deliveries.claim({ token: 'other', nowMs, leaseMs: LIMITS.leaseMs, limit: 9 })).toEqual([]);
  end();
  await awaitState(id, 'started');
});

test('a delivery of the api trigger sets its own parameters', async () => {
  await deployTriggers();
  begin();
  const event = { deployment: 'review', version: 1, trigger: 'api', isOrdered: false, contentType: 'text/plain' };
  const id = await acceptDelivery(
    { ...event, body: Buffer.from('hello'), params: { number: '7' } },
    { deliveries: triggers.deliveries, nowMs: () => nowMs, wake: () => pump?.wake() },
  );
  await awaitState(id, 'started');
  expect(started[0]!.params).toEqual({ number: '7' });
  expect(DEFAULT_DEDUPE_MS).toBe(86_400_000);
});

test('an output of the ended run is the input of the run that follows it, and an absent one refuses the delivery', async () => {
  const ref = { sha256: 'a'.repeat(64), sizeBytes: 9_000, mediaType: 'text/plain' };
  const source = { kind: 'run', of: 'build', states: ['succeeded'], output: 'compile.report' } as const;
  await deployTriggers({ ...WEBHOOK, source });
  begin();
  const payload = {
    run: 'build-1',
    stages: { compile: { output: null, outputs: { report: { ...ref, text: null } } } },
  };
  await awaitState(await send(JSON.stringify(payload)), 'started');
  expect(started.map(({ inputRef }) => inputRef)).toEqual([ref]);
  const refused = await send(JSON.stringify({ ...payload, stages: {} }));
  await awaitState(refused, 'refused');
  expect(await triggers.deliveries.find(refused)).toMatchObject({
    code: 'trigger/no-output',
    message: 'the run build-1 has no output compile.report',
  });
  expect(started).toHaveLength(1);
});

test('a time of a schedule cancels the oldest run, and starts after its end', async () => {
  await deployTriggers(makeSchedule({ overlap: 'cancel_oldest' }));
  begin();
  const schedule = { atMs: nowMs, isOvertaken: false, isAsked: false };
  const fire = (atMs: number): Promise<string> => send(`${atMs}`, 'nightly', { ...schedule, atMs });
  const first = await fire(nowMs - 2);
  await awaitState(first, 'started');
  const second = await fire(nowMs - 1);
  await expect.poll(() => cancelled).toEqual([`review-${first}`]);
  expect(await triggers.deliveries.find(second)).toMatchObject({ state: 'held', hold: 'overlap' });
  await triggers.deliveries.recordRunEnd({ id: first, event: null, nowMs, createId: () => '' });
  pump!.wake();
  await awaitState(second, 'started');
  expect(cancelled).toEqual([`review-${first}`]);
});

test('a start that takes long keeps no later delivery waiting, and a process starts few runs at once', async () => {
  await deployTriggers(WEBHOOK, { ...WEBHOOK, name: 'never', when: 'false' });
  const ends: (() => void)[] = [];
  result = () => new Promise((resolve) => ends.push(() => resolve({ kind: 'started' })));
  begin();
  const slow: string[] = [];
  for (let n = 0; n < PUMP_LIMITS.starts + 1; n += 1) slow.push(await send(`${n}`));
  await expect.poll(() => started.length).toBe(PUMP_LIMITS.starts);
  const filtered = await send('1', 'never');
  await awaitState(filtered, 'filtered');
  expect(started).toHaveLength(PUMP_LIMITS.starts);
  ends.shift()!();
  await expect.poll(() => started.length).toBe(PUMP_LIMITS.starts + 1);
  for (const end of ends) end();
  for (const id of slow) await awaitState(id, 'started');
});

test('a process claims no more deliveries than its limit', async () => {
  await deployTriggers(WEBHOOK);
  for (let n = 0; n < PUMP_LIMITS.atOnce + 1; n += 1) await send(`${n}`);
  const ends: (() => void)[] = [];
  result = () => new Promise((resolve) => ends.push(() => resolve({ kind: 'started' })));
  begin();
  const count = async (state: string): Promise<number> =>
    (await triggers.deliveries.list({ limit: 99 })).filter((row) => row.state === state).length;
  await expect.poll(() => count('starting')).toBe(PUMP_LIMITS.atOnce);
  expect(await count('accepted')).toBe(1);
  result = () => Promise.resolve({ kind: 'started' });
  for (const end of ends) end();
  await expect.poll(() => count('started')).toBe(PUMP_LIMITS.atOnce + 1);
});
