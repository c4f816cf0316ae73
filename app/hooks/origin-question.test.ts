import { expect, test } from 'vitest';
import { answerOrigin } from './origin-question.ts';

test('a sender gets its own name, and at most the rate that is promised', () => {
  expect(answerOrigin({ origin: 'events.example.com', rate: null }, 100)).toEqual({
    allow: 'POST, OPTIONS',
    'webhook-allowed-origin': 'events.example.com',
  });
  const rateOf = (rate: string) => answerOrigin({ origin: 'a', rate }, 100)?.['webhook-allowed-rate'];
  expect([rateOf('99'), rateOf('100'), rateOf('101'), rateOf('999999999')]).toEqual(['99', '100', '100', '100']);
});

test.each([
  [null, null],
  ['', null],
  ['a b', null],
  ['a\r\nset-cookie: x', null],
  ['*', null],
  ['<script>', null],
  ['-a', null],
  [`${'a'.repeat(254)}`, null],
  ['a', '0'],
  ['a', '-1'],
  ['a', '1e9'],
  ['a', '1234567890'],
  ['a', '*'],
])('the origin %j with the rate %j is no question', (origin, rate) => {
  expect(answerOrigin({ origin, rate }, 100)).toBeNull();
});

test('a name has at most 253 characters', () => {
  expect(answerOrigin({ origin: 'a'.repeat(253), rate: null }, 100)).not.toBeNull();
});
