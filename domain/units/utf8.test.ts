import { expect, test } from 'vitest';
import { cutToUtf8Tail } from './utf8.ts';

test.each([
  ['a short text stays whole', 'one\ntwo\n', 20, 'one\ntwo\n', 0],
  ['whole lines are taken from the end', 'one\ntwo\nthree\n', 10, 'two\nthree\n', 4],
  ['a line that only partly fits is left out', 'one\ntwo\nthree\n', 9, 'three\n', 8],
  ['the end of a line that is too long is taken', 'x'.repeat(100), 10, 'x'.repeat(10), 90],
  ['a line that is too long with its line break gives its end', `${'x'.repeat(100)}\n`, 10, `${'x'.repeat(9)}\n`, 91],
  ['a character of four bytes stays whole', 'aa😀😀', 7, '😀', 6],
  ['a character of two bytes stays whole', 'éé', 3, 'é', 2],
  ['a lone surrogate counts three bytes', 'a\udc00', 3, '\udc00', 1],
  ['nothing of nothing', '', 5, '', 0],
])('%s', (_name, text, most, tail, leftOutBytes) => {
  expect(cutToUtf8Tail(text, most)).toEqual({ text: tail, leftOutBytes });
});
