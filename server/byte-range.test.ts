import { expect, test } from 'vitest';
import { readByteRange } from './byte-range.ts';

test.each([
  ['bytes=0-3', { from: 0, to: 4 }],
  ['bytes=4-', { from: 4, to: 10 }],
  ['bytes=4-99', { from: 4, to: 10 }],
  ['bytes=-3', { from: 7, to: 10 }],
  ['bytes=-99', { from: 0, to: 10 }],
  ['BYTES=9-9', { from: 9, to: 10 }],
])('%s of ten bytes', (header, range) => {
  expect(readByteRange(header, 10)).toEqual(range);
});

test.each(['bytes=10-', 'bytes=10-12', 'bytes=999999999999999-', 'bytes=-0'])('%s names no byte', (header) => {
  expect(readByteRange(header, 10)).toBe('outside');
});

test.each([null, '', 'bytes=', 'bytes=-', 'bytes=3-1', 'bytes=0-1,3-4', 'lines=0-1', 'bytes=0x1-', 'bytes=1e3-'])(
  '%j means all bytes',
  (header) => {
    expect(readByteRange(header, 10)).toBeNull();
  },
);

test('an empty file has no part', () => {
  expect(readByteRange('bytes=0-', 0)).toBe('outside');
  expect(readByteRange('bytes=-1', 0)).toBe('outside');
});
