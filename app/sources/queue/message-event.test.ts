import { expect, test } from 'vitest';
import { isDeliveryId } from '../../../domain/delivery/delivery-id.ts';
import { MOST_PAYLOAD_BYTES } from '../../../domain/delivery/delivery.ts';
import { toBareEvent, toEvent } from './message-event.ts';

const TRIGGER = { deployment: 'orders', version: 3, trigger: 'queue', isOrdered: false, maxDeliver: 10 };

type Message = Parameters<typeof toEvent>[0];

function makeMessage(changes: Partial<Message> = {}): Message {
  return {
    stream: 'ORDERS',
    sequence: 7,
    storedAtNanos: 1_795_996_352_123_456_789n,
    deliveries: 1,
    subject: 'orders.new',
    headers: new Map(),
    body: Buffer.from('{"id":1}'),
    ...changes,
  };
}

const idOf = (changes: Partial<Message> = {}, trigger = TRIGGER): string => toEvent(makeMessage(changes), trigger).id!;

test('the id follows from the message and its trigger, and from nothing else', () => {
  const id = idOf();
  expect(isDeliveryId(id)).toBe(true);
  const again = { deliveries: 4, body: Buffer.from('x'), headers: new Map([['a', ['b']]]), subject: 'other' };
  expect(idOf(again, { ...TRIGGER, version: 4, isOrdered: true })).toBe(id);
  const others = [
    idOf({ sequence: 8 }),
    idOf({ stream: 'OTHER' }),
    // A stream that was deleted and made again begins with the same numbers.
    idOf({ storedAtNanos: 1_795_996_352_123_456_790n }),
    idOf({}, { ...TRIGGER, deployment: 'other' }),
    idOf({}, { ...TRIGGER, trigger: 'other' }),
  ];
  expect(new Set([id, ...others]).size).toBe(6);
});

test.each([-1n, 2n ** 63n, 0n])('a broker with the time %s gives an id, too', (storedAtNanos) => {
  expect(isDeliveryId(idOf({ storedAtNanos }))).toBe(true);
});

test.each([
  ['a-1', 'a-1'],
  ['x'.repeat(256), 'x'.repeat(256)],
  ['x'.repeat(257), 'ORDERS/7'],
  ['a b', 'ORDERS/7'],
  ['', 'ORDERS/7'],
])('the id of the publisher becomes the id of the sender if it has a usable form: %s', (id, senderId) => {
  expect(toEvent(makeMessage({ headers: new Map([['nats-msg-id', [id]]]) }), TRIGGER).senderId).toBe(senderId);
});

test.each([
  [[], 'application/json'],
  [['Text/Plain; charset=utf-8'], 'text/plain'],
  [['application/cloudevents+json'], 'application/cloudevents+json'],
  [['nonsense'], 'application/json'],
  [['text/plain', 'text/html'], 'application/json'],
  [[`text/${'x'.repeat(65)}`], 'application/json'],
])('the payload has the type of the header %j', (values, contentType) => {
  expect(toEvent(makeMessage({ headers: new Map([['content-type', values]]) }), TRIGGER).contentType).toBe(contentType);
});

test('expressions read the place of the message, and no publisher can forge it', () => {
  const headers = new Map([
    ['nats-subject', ['forged']],
    ['authorization', ['secret']],
    ['ce-specversion', ['1.0']],
    ['ce-source', ['/shop']],
    ['ce-id', ['9']],
    ['traceparent', ['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01']],
  ]);
  const event = toEvent(makeMessage({ headers }), TRIGGER);
  expect(event.headers).toMatchObject({ 'nats-subject': 'orders.new', 'nats-stream': 'ORDERS', 'nats-sequence': '7' });
  expect(Object.keys(event.headers!)).not.toContain('authorization');
  expect([event.cloudEvent, event.traceparent]).toEqual([
    { source: '/shop', id: '9' },
    '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  ]);
  expect(Object.keys(toEvent(makeMessage({ subject: 'x'.repeat(1_025) }), TRIGGER).headers!)).not.toContain(
    'nats-subject',
  );
});

test('a payload has at most 1 MiB, and a larger one is refused without its bytes', () => {
  const atLimit = toEvent(makeMessage({ body: new Uint8Array(MOST_PAYLOAD_BYTES) }), TRIGGER);
  expect([atLimit.refusal, atLimit.body.byteLength]).toEqual([undefined, MOST_PAYLOAD_BYTES]);
  const over = toEvent(makeMessage({ body: new Uint8Array(MOST_PAYLOAD_BYTES + 1) }), TRIGGER);
  expect(over.body.byteLength).toBe(0);
  expect(over.refusal).toEqual({
    code: 'trigger/too-large',
    message: 'the message has 1048577 bytes; a payload has at most 1048576',
  });
});

test('a message is accepted at its last delivery, and refused with its payload at a further one', () => {
  expect(toEvent(makeMessage({ deliveries: 10 }), TRIGGER).refusal).toBeUndefined();
  const { refusal, body } = toEvent(makeMessage({ deliveries: 11 }), TRIGGER);
  expect(refusal).toMatchObject({ code: 'trigger/redelivered' });
  expect(Buffer.from(body).toString()).toBe('{"id":1}');
});

test('a bare event has the id of the whole one, and nothing that its publisher has chosen', () => {
  const message = makeMessage({ headers: new Map([['nats-msg-id', ['\0']]]) });
  const bare = toBareEvent(message, TRIGGER, { code: 'trigger/uncommitted', message: 'x' }, new Uint8Array());
  expect(bare.id).toBe(toEvent(message, TRIGGER).id);
  expect([bare.senderId, bare.headers, bare.contentType]).toEqual(['ORDERS/7', undefined, 'application/octet-stream']);
});
