/** A queue in memory is read into a store of deliveries in memory, with failures of both. */
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { MOST_PAYLOAD_BYTES } from '../../../domain/delivery/delivery.ts';
import type { NatsQueue } from '../../../domain/delivery/queue-source.ts';
import { CodedError } from '../../../domain/errors/coded-error.ts';
import type { DeliveryRow, DeliveryStore } from '../../../store/triggers.ts';
import { ACK_WAIT_MS, makeNats } from '../../../test/conformance/queues.ts';
import { makeVersion } from '../../../test/conformance/deployments.ts';
import { createMemoryAccess } from '../../../test/rig/access/memory-access.ts';
import { FakeBroker } from '../../../test/rig/queues/fake-broker.ts';
import { type KeepTools, keepQueue, type QueueKeeper } from './keep-queue.ts';
import type { QueueTrigger } from './message-event.ts';

const TRIGGER: QueueTrigger = { deployment: 'orders', version: 1, trigger: 'queue', isOrdered: false, maxDeliver: 3 };
const LIMITS = { mostOpen: 1_000, roomMs: 5, retryMs: 5, mostRetryMs: 20 };
const KEEP_LIMITS = { firstPauseMs: 5, mostPauseMs: 20, calmMs: 60_000 };

let broker: FakeBroker;
let deliveries: DeliveryStore;
let lines: string[];

beforeEach(async () => {
  broker = new FakeBroker();
  broker.addStream('ORDERS');
  const access = createMemoryAccess();
  deliveries = access.triggers.deliveries;
  await access.triggers.deployments.deploy(makeVersion('orders'), { isPaused: false });
  lines = [];
});

interface Keeping {
  readonly trigger?: Partial<QueueTrigger>;
  readonly tools?: Partial<KeepTools>;
  readonly nats?: Partial<NatsQueue>;
  readonly secrets?: Readonly<Record<string, string>>;
}

function keep({ trigger, tools, nats, secrets = {} }: Keeping = {}): QueueKeeper & { stop(): Promise<void> } {
  const stop = new AbortController();
  const target = { nats: makeNats(broker.server, nats), secrets, clientName: 'test', ackWaitMs: ACK_WAIT_MS };
  const kept = keepQueue(
    { ...TRIGGER, ...trigger },
    {
      deliveries,
      nowMs: Date.now,
      wake: () => undefined,
      log: (line) => lines.push(line),
      open: broker.open,
      prepare: () => Promise.resolve(target),
      signal: stop.signal,
      countOpen: async (most) => await deliveries.countOpen('orders', 'queue', most),
      mayRead: () => true,
      limits: LIMITS,
      keepLimits: KEEP_LIMITS,
      ...tools,
    },
  );
  const end = async (): Promise<void> => {
    stop.abort();
    await kept.ended;
  };
  onTestFinished(end);
  return { ...kept, stop: end };
}

const list = async (): Promise<readonly DeliveryRow[]> => (await deliveries.list({ limit: 999 })).toReversed();
const publish = (count: number): void => {
  for (let index = 0; index < count; index += 1) broker.publish('ORDERS', 'orders.new', `{"n":${index}}`);
};
const countUnsettled = (): number => broker.countUnsettled('ORDERS', 'voidbox');

/** The store fails for some calls of `accept`. */
function failAccept(fails: (call: number, delivery: Parameters<DeliveryStore['accept']>[0]) => Error | null) {
  let calls = 0;
  return {
    ...deliveries,
    accept: async (delivery: Parameters<DeliveryStore['accept']>[0]) => {
      calls += 1;
      const error = fails(calls, delivery);
      if (error !== null) throw error;
      return await deliveries.accept(delivery);
    },
  };
}

test('each message is one delivery, and is acknowledged after it', async () => {
  publish(20);
  const kept = keep();
  await expect.poll(countUnsettled).toBe(0);
  const rows = await list();
  expect(rows.map(({ senderId }) => senderId).toSorted()).toEqual(
    Array.from({ length: 20 }, (_, index) => `ORDERS/${index + 1}`).toSorted(),
  );
  expect(kept.getState()).toMatchObject({ deployment: 'orders', trigger: 'queue', state: 'reading', code: null });
  publish(1);
  await expect.poll(async () => (await list()).length).toBe(21);
});

test('deliveries of a trigger with an order are accepted in the order of the stream', async () => {
  publish(30);
  const slow = {
    ...deliveries,
    accept: async (delivery: Parameters<DeliveryStore['accept']>[0]) => {
      for (let steps = Number(delivery.senderId!.split('/')[1]) % 3; steps > 0; steps -= 1) await sleep(1);
      return await deliveries.accept(delivery);
    },
  };
  keep({ trigger: { isOrdered: true }, tools: { deliveries: slow } });
  await expect.poll(countUnsettled).toBe(0);
  expect((await list()).map(({ senderId }) => senderId)).toEqual(
    Array.from({ length: 30 }, (_, index) => `ORDERS/${index + 1}`),
  );
});

test('a message is acknowledged only after its delivery is committed, and one that is delivered again starts nothing', async () => {
  publish(4);
  // The answer of a commit is lost, so the message comes again.
  const lossy = {
    ...deliveries,
    accept: async (delivery: Parameters<DeliveryStore['accept']>[0]) => {
      const { isNew } = await deliveries.accept(delivery);
      if (isNew) throw new CodedError('api/access-unavailable', 'the database is away');
      return await deliveries.accept(delivery);
    },
  };
  keep({ tools: { deliveries: lossy } });
  await expect.poll(countUnsettled).toBe(0);
  const rows = await list();
  expect([rows.length, rows.every(({ state }) => state === 'accepted')]).toEqual([4, true]);
});

test('a database that is away stops reading, and no delivery of a message is used up', async () => {
  publish(2);
  let isAway = true;
  const away = new CodedError('api/access-unavailable', 'the database is away');
  const kept = keep({
    tools: {
      countOpen: async (most) => (isAway ? Promise.reject(away) : await deliveries.countOpen('orders', 'queue', most)),
    },
  });
  await expect.poll(() => kept.getState()).toMatchObject({ state: 'faulty', code: 'api/access-unavailable' });
  await sleep(100);
  expect(countUnsettled()).toBe(2);
  isAway = false;
  await expect.poll(async () => (await list()).map(({ state }) => state)).toEqual(['accepted', 'accepted']);
  await expect.poll(() => kept.getState().state).toBe('reading');
  // One line for the fault, however often it is met, and one for its end.
  expect(lines).toEqual([
    'queue of trigger queue of deployment orders: api/access-unavailable: the database is away',
    'queue of trigger queue of deployment orders: connected again',
  ]);
});

test('messages stay in the queue as long as a trigger has too many open deliveries', async () => {
  publish(7);
  const kept = keep({ tools: { limits: { ...LIMITS, mostOpen: 5 } } });
  await expect.poll(() => kept.getState().state).toBe('waiting');
  expect([(await list()).length, countUnsettled()]).toEqual([5, 2]);
  const [{ id } = { id: '' }] = await deliveries.claim({ token: 'a', nowMs: Date.now(), leaseMs: 1_000, limit: 1 });
  await deliveries.record({ id, token: 'a' }, { kind: 'refused', code: 'x', message: 'x' }, Date.now());
  await expect.poll(async () => (await list()).length).toBe(6);
  await expect.poll(countUnsettled).toBe(1);
});

test('messages stay in the queue while the deployment is paused', async () => {
  let isPaused = true;
  publish(2);
  const kept = keep({ tools: { mayRead: () => !isPaused } });
  await expect.poll(() => kept.getState().state).toBe('waiting');
  expect(countUnsettled()).toBe(2);
  isPaused = false;
  await expect.poll(countUnsettled).toBe(0);
});

test('a message of more than 1 MiB is refused, and does not come again', async () => {
  broker.publish('ORDERS', 'orders.new', new Uint8Array(MOST_PAYLOAD_BYTES + 1));
  publish(1);
  keep();
  await expect.poll(countUnsettled).toBe(0);
  const rows = await list();
  expect(rows.map(({ state, code }) => [state, code]).toSorted()).toEqual([
    ['accepted', null],
    ['refused', 'trigger/too-large'],
  ]);
});

test('a message that cannot be committed is tried at each of its deliveries, and is then refused with its payload', async () => {
  publish(1);
  broker.publish('ORDERS', 'orders.new', 'poison');
  const isPoison = ({ body }: { readonly body: Uint8Array }): boolean => Buffer.from(body).toString() === 'poison';
  let tries = 0;
  const store = failAccept((_call, delivery) => {
    if (!isPoison(delivery) || delivery.refusal !== undefined) return null;
    tries += 1;
    return new Error('value too long for a column');
  });
  keep({ tools: { deliveries: store } });
  await expect.poll(countUnsettled).toBe(0);
  const refused = (await list()).find(({ state }) => state === 'refused')!;
  expect([tries, refused.code, refused.message]).toEqual([
    3,
    'trigger/uncommitted',
    'the message could not be stored: value too long for a column',
  ]);
  expect(Buffer.from((await deliveries.readBody(refused.id))!).toString()).toBe('poison');
  expect(lines).toContain('message 2 of ORDERS could not be committed at delivery 3 of 3: value too long for a column');
});

test('a message whose payload no store can keep is refused without it', async () => {
  broker.publish('ORDERS', 'orders.new', 'poison');
  const store = failAccept((_call, { body }) => (body.byteLength === 0 ? null : new Error('no such bytes')));
  keep({ tools: { deliveries: store } });
  await expect.poll(countUnsettled).toBe(0);
  expect(await list()).toMatchObject([{ state: 'refused', code: 'trigger/uncommitted', bodyBytes: 0 }]);
});

test('a commit that takes longer than the queue waits is not delivered again', async () => {
  publish(1);
  let calls = 0;
  const slow = {
    ...deliveries,
    accept: async (delivery: Parameters<DeliveryStore['accept']>[0]) => {
      calls += 1;
      const until = Date.now() + ACK_WAIT_MS * 1.5;
      while (Date.now() < until) await sleep(20);
      return await deliveries.accept(delivery);
    },
  };
  keep({ tools: { deliveries: slow } });
  await expect.poll(countUnsettled).toBe(0);
  expect(calls).toBe(1);
});

test('a broker that is killed again and again loses no message and starts none twice', async () => {
  const kept = keep({ trigger: { maxDeliver: 1_000 } });
  for (let round = 0; round < 6; round += 1) {
    publish(5);
    await expect.poll(async () => (await list()).length).toBeGreaterThanOrEqual(round * 5 + 1);
    broker.kill();
    await expect.poll(() => kept.getState()).toMatchObject({ state: 'faulty', code: 'queue/unreachable' });
    broker.start();
  }
  await expect.poll(countUnsettled).toBe(0);
  expect(new Set((await list()).map(({ senderId }) => senderId)).size).toBe(30);
  expect(await list()).toHaveLength(30);
});

test('two services with one consumer accept each message once', async () => {
  publish(40);
  const both = [keep(), keep()];
  await expect.poll(countUnsettled).toBe(0);
  expect(await list()).toHaveLength(40);
  await Promise.all(both.map((each) => each.stop()));
});

test('a stop commits and acknowledges what was read, and reads nothing more', async () => {
  broker.mostAtOnce = 2;
  publish(10);
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  const slow = {
    ...deliveries,
    accept: async (delivery: Parameters<DeliveryStore['accept']>[0]) => {
      await held;
      return await deliveries.accept(delivery);
    },
  };
  const kept = keep({ tools: { deliveries: slow } });
  await expect.poll(() => kept.getState().state).toBe('reading');
  await sleep(30);
  const stopped = kept.stop();
  release();
  await stopped;
  expect([(await list()).length, countUnsettled()]).toEqual([2, 8]);
});

test('a login that is refused is shown without its secret, and is tried again with the new one', async () => {
  broker.token = 'right-token';
  publish(1);
  let token = 'wrong-token-of-a-user';
  const nats = makeNats(broker.server, { login: { kind: 'token', token: 'T' } });
  const kept = keep({
    tools: {
      prepare: () => Promise.resolve({ nats, secrets: { T: token }, clientName: 'test', ackWaitMs: ACK_WAIT_MS }),
    },
  });
  await expect
    .poll(() => kept.getState())
    .toMatchObject({
      state: 'faulty',
      code: 'queue/login-refused',
      message: 'Authorization Violation of [redacted]',
    });
  expect(lines.join()).not.toContain('wrong-token');
  token = 'right-token';
  await expect.poll(countUnsettled).toBe(0);
});
