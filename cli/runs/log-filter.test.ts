import { expect, test } from 'vitest';
import { MAX_TAIL_LINES } from '../../app/lines/log-lines.ts';
import { parseGrep, parseTail, readSince, Tail } from './log-filter.ts';

test.each([
  ['0', { seq: 0 }],
  ['412', { seq: 412 }],
  ['10m', { agoMs: 600_000 }],
  ['1h30m', { agoMs: 5_400_000 }],
  ['2026-11-23', { atMs: Date.UTC(2026, 10, 23) }],
  ['2026-11-23T08:30', { atMs: Date.UTC(2026, 10, 23, 8, 30) }],
  ['2026-11-23T08:30:15.5Z', { atMs: Date.UTC(2026, 10, 23, 8, 30, 15, 500) }],
  ['2026-11-23T08:30+02:00', { atMs: Date.UTC(2026, 10, 23, 6, 30) }],
] as const)('--since %s', (text, since) => {
  expect(readSince(text)).toEqual(since);
});

test.each(['', 'soon', '-5m', '2026-13-01', '2026-11-23T25:00', '10 m', '1e3'])('--since %j is refused', (text) => {
  expect(() => readSince(text)).toThrow(/an age .* a time/);
});

test('--tail takes lines up to its limit, --grep any text', () => {
  expect([parseTail('0'), parseTail(String(MAX_TAIL_LINES))]).toEqual([0, MAX_TAIL_LINES]);
  for (const text of [String(MAX_TAIL_LINES + 1), '-1', 'x', ''])
    expect(() => parseTail(text)).toThrow('at most 10000');
  expect(parseGrep('(a+)+$')).toBe('(a+)+$');
  expect(() => parseGrep('')).toThrow('the text that a line contains');
});

test.each([0, 1, 3, 10])('the last %d of five lines are printed, and then all later lines', (most) => {
  const tail = new Tail(most);
  const lines = ['1', '2', '3', '4', '5'];
  expect([tail.push(lines.slice(0, 1)), tail.push(lines.slice(1, 4)), tail.push(lines.slice(4))]).toEqual([[], [], []]);
  expect(tail.release()).toEqual(lines.slice(Math.max(0, 5 - most)));
  expect(tail.push(['6'])).toEqual(['6']);
  expect(tail.release()).toEqual([]);
});
