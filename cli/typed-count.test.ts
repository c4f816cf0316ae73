import { expect, test } from 'vitest';
import { countOf } from './typed-count.ts';

test.each<[string, number]>([
  ['1', 1],
  ['20', 20],
  ['999999', 999_999],
])('%s is a number', (text, number) => {
  expect(countOf(6)(text)).toBe(number);
});

test.each(['0', '-1', '01', '1.5', '1e3', ' 1', '', '1000000', 'ten'])('%j is refused', (text) => {
  expect(() => countOf(6)(text)).toThrow('It must be a whole number from 1.');
});
