import { expect, test } from 'vitest';
import { createRateLimits } from './rate-limits.ts';

function openRig(mostKeys = 10) {
  let now = 0;
  const rates = createRateLimits({ requestsPerSecond: 5, mostKeys, nowMs: () => now });
  return {
    rates,
    pass: (ms: number) => (now += ms),
    send: (count: number, key = 'a') => Array.from({ length: count }, () => rates.count(key)),
  };
}

test('a key may send the requests of a second at once, and no further one', () => {
  const { send } = openRig();
  expect(send(6)).toEqual([null, null, null, null, null, 200]);
});

test('a key may send one more request after its share of the second', () => {
  const { pass, send } = openRig();
  send(5);
  pass(200);
  expect(send(2)).toEqual([null, 200]);
});

test('a key that waits a minute has the requests of one second', () => {
  const { pass, send } = openRig();
  send(5);
  pass(60_000);
  expect(send(6).filter((wait) => wait === null)).toHaveLength(5);
});

test('a refused request costs nothing', () => {
  const { pass, send } = openRig();
  send(50);
  pass(200);
  expect(send(1)).toEqual([null]);
});

test('keys do not share their requests', () => {
  const { send } = openRig();
  send(6);
  expect(send(1, 'b')).toEqual([null]);
});

test('a clock that moves back gives no requests', () => {
  const { pass, send } = openRig();
  send(5);
  pass(-60_000);
  expect(send(1)).toEqual([200]);
});

test('the key that was used least recently is forgotten beyond the limit', () => {
  const { send } = openRig(2);
  send(5, 'a');
  send(5, 'b');
  send(1, 'a');
  send(1, 'c');
  expect(send(1, 'a')).toEqual([200]);
  expect(send(1, 'b')).toEqual([null]);
});

test('a key that only asks costs nothing, and a charged one waits for what it owes', () => {
  const { rates, pass } = openRig();
  expect(Array.from({ length: 9 }, () => rates.findWait('a'))).toEqual(Array.from({ length: 9 }, () => null));
  for (let sent = 0; sent < 7; sent += 1) rates.charge('a');
  expect(rates.findWait('a')).toBe(600);
  expect(rates.findWait('b')).toBeNull();
  pass(600);
  expect(rates.findWait('a')).toBeNull();
});
