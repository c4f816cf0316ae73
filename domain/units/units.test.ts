import { expect, test } from 'vitest';
import { formatBytes } from './bytes.ts';
import { formatAge, formatDurationMs, parseDurationMs, writeDurationMs } from './duration.ts';
import { encodeUtf8, countUtf8Bytes } from './utf8.ts';

test.each([
  ['90s', 90_000],
  ['1h30m', 5_400_000],
  ['500ms', 500],
  ['1.5h', 5_400_000],
  ['2d', 172_800_000],
  ['5', null],
  ['', null],
  ['5 m', null],
  ['-1s', null],
  ['1w', null],
  ['d', null],
  ['7d', 604_800_000],
  ['9'.repeat(400) + 's', null],
])('the duration %s', (text, ms) => expect(parseDurationMs(text)).toBe(ms));

test.each([
  [0, '0 ms'],
  [849.6, '850 ms'],
  [999.6, '1.0 s'],
  [1_000, '1.0 s'],
  [2_449, '2.4 s'],
  [59_949, '59.9 s'],
  [59_950, '1m 00s'],
  [65_000, '1m 05s'],
  [3_599_400, '59m 59s'],
  [3_600_000, '1h 00m'],
  [7_380_000, '2h 03m'],
  [172_800_000, '2d 00h'],
  [-1, '-'],
  [Number.NaN, '-'],
])('%d ms for people', (ms, text) => expect(formatDurationMs(ms)).toBe(text));

test.each([
  [1_000, '1s'],
  [1_500, '1500ms'],
  [90_000, '90s'],
  [366 * 86_400_000, '366d'],
])('%d ms in a spec', (ms, text) => {
  expect(writeDurationMs(ms)).toBe(text);
  expect(parseDurationMs(text)).toBe(ms);
});

test.each([
  [-5, '0s ago'],
  [59_000, '59s ago'],
  [61_000, '1m ago'],
  [7_200_000, '2h ago'],
  [260_000_000, '3d ago'],
])('%d ms ago', (ms, text) => expect(formatAge(ms)).toBe(text));

test.each([
  [0, '0 B'],
  [1_023, '1023 B'],
  [1_536, '1.5 KiB'],
  [10_200, '10 KiB'],
  [1_048_570, '1.0 MiB'],
  [20 * 1_048_576, '20 MiB'],
  [3 * 1_073_741_824, '3.0 GiB'],
  [5 * 1024 ** 5, '5120 TiB'],
])('%d bytes for people', (bytes, text) => expect(formatBytes(bytes)).toBe(text));

test.each(['', 'abc', 'é', '€', '😀x', 'a\ud800b', '\udc00'])('UTF-8 of %j', (text) => {
  const expected = [...Buffer.from(text, 'utf8')];
  expect([...encodeUtf8(text)]).toEqual(expected);
  expect(countUtf8Bytes(text)).toBe(expected.length);
});
