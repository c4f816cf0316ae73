import { AckPolicy } from '@nats-io/jetstream';
import { expect, test } from 'vitest';
import { findConsumerProblem, LEAST_ACK_WAIT_MS } from './consumer-problem.ts';

const GOOD = { durable_name: 'voidbox', ack_policy: AckPolicy.Explicit, max_deliver: -1, ack_wait: 30_000_000_000 };

test.each([
  [{}, null],
  [{ filter_subject: 'a.>' }, 'a.>'],
  [{ filter_subjects: ['a'] }, 'a'],
  [{ ack_wait: LEAST_ACK_WAIT_MS * 1_000_000 }, null],
])('a consumer of others is usable: %j', (settings, subject) => {
  expect(findConsumerProblem({ ...GOOD, ...settings }, { subject })).toBeNull();
});

test.each([
  [{ deliver_subject: 'x' }, 'pushes its messages'],
  [{ ack_policy: AckPolicy.None }, 'acknowledgement policy none'],
  [{ ack_policy: AckPolicy.All }, 'acknowledgement policy all'],
  [{ max_deliver: 5 }, 'max_deliver 5'],
  [{ backoff: [1] }, 'backoff'],
  [{ ack_wait: LEAST_ACK_WAIT_MS * 1_000_000 - 1 }, 'ack_wait of 999.999999 ms'],
  [{ headers_only: true }, 'no payloads'],
  [{ filter_subject: 'b' }, 'gets the subjects b, and `subject` of the trigger is a'],
  [{ filter_subjects: ['a', 'b'] }, 'gets the subjects a, b'],
  [{}, 'gets the subjects of the whole stream'],
])('a consumer with which messages would be lost is not usable: %j', (settings, message) => {
  expect(
    findConsumerProblem(
      {
        ...GOOD,
        filter_subject: 'a',
        ...settings,
        ...(message.includes('whole') ? { filter_subject: undefined } : {}),
      } as never,
      { subject: 'a' },
    ),
  ).toContain(message);
});

test('a consumer that is not durable is not usable', () => {
  const { durable_name: _name, ...settings } = GOOD;
  expect(findConsumerProblem(settings, { subject: null })).toContain('is not durable');
});
