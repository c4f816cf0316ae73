/** The promises of every queue. A queue's own test file calls these tests. */
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { OpenedQueue, OpenQueue, QueueMessage } from '../../app/sources/queue/queue-port.ts';
import type { NatsQueue } from '../../domain/delivery/queue-source.ts';

export interface QueueSubject {
  readonly name: string;
  /** Starts an empty broker with the stream `ORDERS`, whose subjects begin with `orders.`. */
  start(): Promise<TestBroker>;
}

export interface TestBroker {
  readonly server: string;
  readonly open: OpenQueue;
  /** @returns the number of the message */
  publish(subject: string, body: Uint8Array | string, headers?: Readonly<Record<string, string>>): Promise<number>;
  /** Ends as a process that is killed. Messages and consumers stay. */
  kill(): Promise<void>;
  /** Starts again after `kill`, at the same address. */
  start(): Promise<void>;
  /** The messages of a consumer that are not acknowledged, also those that it has not got yet. */
  countUnsettled(consumer: string): Promise<number>;
  stop(): Promise<void>;
}

export const ACK_WAIT_MS = 1_000;

export function makeNats(server: string, changes: Partial<NatsQueue> = {}): NatsQueue {
  return {
    servers: [server],
    stream: 'ORDERS',
    consumer: 'voidbox',
    subject: null,
    start: 'all',
    maxDeliver: 10,
    login: null,
    tlsCa: null,
    ...changes,
  };
}

/** Reads the given number of messages, over as many pulls as that needs. */
async function take(queue: OpenedQueue, count: number): Promise<readonly QueueMessage[]> {
  const taken: QueueMessage[] = [];
  while (taken.length < count) for await (const message of queue.pull(count - taken.length)) taken.push(message);
  return taken;
}

const toText = ({ body }: QueueMessage): string => Buffer.from(body).toString();

export function testQueues({ name, start }: QueueSubject): void {
  describe(`a queue ${name}`, () => {
    let broker: TestBroker;

    beforeEach(async () => {
      broker = await start();
      onTestFinished(() => broker.stop());
    });

    const open = async (changes: Partial<NatsQueue> = {}): Promise<OpenedQueue> => {
      const nats = makeNats(broker.server, changes);
      const queue = await broker.open({ nats, secrets: {}, clientName: 'test', ackWaitMs: ACK_WAIT_MS });
      onTestFinished(() => queue.close());
      return queue;
    };
    const tools: Tools = { broker: () => broker, open };
    testMessages(tools);
    testSettling(tools);
    testFaults(tools);
  });
}

interface Tools {
  broker(): TestBroker;
  open(changes?: Partial<NatsQueue>): Promise<OpenedQueue>;
}

function testMessages({ broker, open }: Tools): void {
  test('messages arrive in their order with their facts', async () => {
    const before = BigInt(Date.now() - 60_000) * 1_000_000n;
    const bytes = Uint8Array.of(0, 255, 10);
    await broker().publish('orders.new', 'one', { 'Nats-Msg-Id': 'a-1', 'X-Kind': 'b' });
    await broker().publish('orders.old', bytes);
    const [first, second] = await take(await open(), 2);
    expect(first).toMatchObject({ stream: 'ORDERS', sequence: 1, deliveries: 1, subject: 'orders.new' });
    expect([toText(first!), first!.headers.get('nats-msg-id'), first!.headers.get('x-kind')]).toEqual([
      'one',
      ['a-1'],
      ['b'],
    ]);
    expect(first!.storedAtNanos).toBeGreaterThan(before);
    expect(second).toMatchObject({ sequence: 2, subject: 'orders.old' });
    expect(Buffer.from(second!.body)).toEqual(Buffer.from(bytes));
  });

  test('a pull yields at most as many messages as it asks for, and those that arrive later', async () => {
    const queue = await open();
    for (const text of ['a', 'b', 'c']) await broker().publish('orders.new', text);
    const two: string[] = [];
    for await (const message of queue.pull(2)) two.push(toText(message));
    expect(two).toEqual(['a', 'b']);
    const rest = take(queue, 2);
    await broker().publish('orders.new', 'd');
    expect((await rest).map(toText)).toEqual(['c', 'd']);
  });

  test('a consumer gets the messages of its subject', async () => {
    for (const subject of ['orders.new', 'orders.old.x', 'orders.new.x']) await broker().publish(subject, subject);
    await broker().publish('orders.new', 'last');
    const got = await take(await open({ subject: 'orders.new' }), 2);
    expect(got.map(toText)).toEqual(['orders.new', 'last']);
    const all = await take(await open({ consumer: 'deep', subject: 'orders.*.x' }), 2);
    expect(all.map(toText)).toEqual(['orders.old.x', 'orders.new.x']);
  });

  test('a consumer that begins with new messages gets no earlier one', async () => {
    await broker().publish('orders.new', 'early');
    const queue = await open({ start: 'new' });
    await broker().publish('orders.new', 'late');
    expect((await take(queue, 1)).map(toText)).toEqual(['late']);
  });

  test('two services with one consumer share its messages', async () => {
    for (let index = 0; index < 8; index += 1) await broker().publish('orders.new', String(index));
    const [one, other] = [await open(), await open()];
    const got = [...(await take(one, 4)), ...(await take(other, 4))];
    expect(got.map(toText).toSorted()).toEqual(['0', '1', '2', '3', '4', '5', '6', '7']);
    expect(got.every(({ deliveries }) => deliveries === 1)).toBe(true);
  });
}

function testSettling({ broker, open }: Tools): void {
  test('a message that was acknowledged or dropped is not delivered again, also after a new connection', async () => {
    for (const text of ['a', 'b', 'c']) await broker().publish('orders.new', text);
    const queue = await open();
    const [a, b] = await take(queue, 2);
    a!.ack();
    b!.drop('trigger/too-large');
    await queue.close();
    expect((await take(await open(), 1)).map(toText)).toEqual(['c']);
    await expect.poll(() => broker().countUnsettled('voidbox')).toBe(1);
  });

  test('a message without an acknowledgement is delivered again, and counts its deliveries', async () => {
    await broker().publish('orders.new', 'a');
    const queue = await open();
    await take(queue, 1);
    await queue.close();
    const [again] = await take(await open(), 1);
    expect(again).toMatchObject({ sequence: 1, deliveries: 2 });
  });

  test('a message that is to be tried later is delivered again after the time', async () => {
    await broker().publish('orders.new', 'a');
    const queue = await open();
    const [first] = await take(queue, 1);
    const from = performance.now();
    first!.retryLater(300);
    const [again] = await take(queue, 1);
    expect(again!.deliveries).toBe(2);
    expect(performance.now() - from).toBeGreaterThanOrEqual(290);
    again!.ack();
  });

  test('a message that is extended is not delivered again', async () => {
    await broker().publish('orders.new', 'a');
    const queue = await open();
    expect(queue.extendWithinMs).toBe(ACK_WAIT_MS);
    const [first] = await take(queue, 1);
    const next = take(queue, 1);
    const from = performance.now();
    const extending = setInterval(() => first!.extend(), ACK_WAIT_MS / 3);
    await expect.poll(() => performance.now() - from).toBeGreaterThan(ACK_WAIT_MS * 2.5);
    clearInterval(extending);
    await broker().publish('orders.new', 'b');
    expect((await next).map(toText)).toEqual(['b']);
    first!.ack();
  });

  test('a pull ends when the queue is stopped, and messages that it has got can still be settled', async () => {
    await broker().publish('orders.new', 'a');
    const queue = await open();
    const got: string[] = [];
    for await (const message of queue.pull(2)) {
      got.push(toText(message));
      queue.stop();
      message.ack();
    }
    expect(got).toEqual(['a']);
    await queue.close();
    await expect.poll(() => broker().countUnsettled('voidbox')).toBe(0);
  });
}

function testFaults({ broker, open }: Tools): void {
  test('a broker that is killed ends a pull with a fault, and keeps what was not acknowledged', async () => {
    for (const text of ['a', 'b']) await broker().publish('orders.new', text);
    const queue = await open();
    const lost = (async () => {
      for await (const message of queue.pull(9)) if (toText(message) === 'b') await broker().kill();
    })();
    await expect(lost).rejects.toMatchObject({ code: 'queue/unreachable' });
    await expect(open()).rejects.toMatchObject({ code: 'queue/unreachable' });
    await broker().start();
    const again = await take(await open(), 2);
    expect(again.map(toText).toSorted()).toEqual(['a', 'b']);
  });

  test('a message of a connection that is lost can be settled without an error, and comes again', async () => {
    await broker().publish('orders.new', 'a');
    const queue = await open();
    const [first] = await take(queue, 1);
    await broker().kill();
    for (const settle of [first!.extend, first!.ack]) settle();
    await queue.close();
    await broker().start();
    expect((await take(await open(), 1)).map(toText)).toEqual(['a']);
  });

  test('a stream that does not exist is a fault', async () => {
    await expect(open({ stream: 'NONE' })).rejects.toMatchObject({ code: 'queue/no-stream' });
  });

  test('a consumer with another subject is a fault', async () => {
    await open({ subject: 'orders.new' });
    await expect(open({ subject: 'orders.old' })).rejects.toMatchObject({ code: 'queue/bad-consumer' });
  });
}
