import { expect, test } from 'vitest';
import { isSha256, isSha256Beginning } from './sha256.ts';

test.each<[string, string, boolean, boolean]>([
  ['a whole one', 'a1'.repeat(32), true, true],
  ['the first eight digits', 'a1b2c3d4', false, true],
  ['seven digits', 'a1b2c3d', false, false],
  ['a digit more', `${'a1'.repeat(32)}0`, false, false],
  ['capitals', 'A1'.repeat(32), false, false],
  ['a line after it', `${'a1'.repeat(32)}\n`, false, false],
  ['a path', `../${'a'.repeat(61)}`, false, false],
  ['nothing', '', false, false],
])('%s', (_what, text, isWhole, isBeginning) => {
  expect([isSha256(text), isSha256Beginning(text)]).toEqual([isWhole, isBeginning]);
});
