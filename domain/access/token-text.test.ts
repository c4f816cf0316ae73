import { expect, test } from 'vitest';
import { findTokenNameProblem, isTokenText, TOKEN_PREFIX } from './token-text.ts';

test('a token has a prefix that scanners of secrets find, and 256 bits', () => {
  expect(isTokenText(`${TOKEN_PREFIX}${'_'.repeat(42)}8`)).toBe(true);
});

test.each([
  '',
  'voidbox_',
  `voidbox_${'a'.repeat(42)}`,
  `voidbox_${'a'.repeat(44)}`,
  `Voidbox_${'a'.repeat(43)}`,
  `voidbox_${'a'.repeat(43)}\n`,
])('the text %j is no token', (text) => {
  expect(isTokenText(text)).toBe(false);
});

test.each(['ci', 'ci-nightly', 'anna@example.org', 'Übung.1', 'a'.repeat(64)])(
  'a token may have the name %s',
  (name) => {
    expect(findTokenNameProblem(name)).toBeNull();
  },
);

test.each(['', '-ci', 'a b', 'a\n', 'a/b', '../a', 'a'.repeat(65), '\u202Ea'])(
  'a token cannot have the name %j',
  (name) => {
    expect(findTokenNameProblem(name)).toEqual(expect.any(String));
  },
);
