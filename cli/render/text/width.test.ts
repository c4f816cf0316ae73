import { expect, test } from 'vitest';
import { createStyle } from './style.ts';
import { displayWidth, padEnd, truncate } from './width.ts';

const red = createStyle(true).red;

test.each([
  ['abc', 3],
  ['日本', 4],
  ['e\u0301', 1],
  ['🚀', 2],
  [red('abc'), 3],
])('displayWidth(%j) is %d', (text, width) => expect(displayWidth(text)).toBe(width));

test('truncate cuts at columns, not at characters', () => {
  expect(truncate('abcdef', 6)).toBe('abcdef');
  expect(truncate('abcdef', 4)).toBe('abc…');
  expect(truncate('日本語', 5)).toBe('日本…');
  expect(truncate('日本語', 4)).toBe('日…');
});

test('truncate keeps the code that ends a colour', () => {
  expect(truncate(red('abcdef'), 3)).toBe('\u001b[31mab…\u001b[39m');
});

test('padEnd counts columns', () => {
  expect(padEnd('日', 4)).toBe('日  ');
});
