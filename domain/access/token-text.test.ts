import { expect, test } from 'vitest';
import { findTokenNameProblem, formatToken, isTokenText } from './token-text.ts';

test('a token has a prefix that scanners of secrets find, and 256 bits', () => {
  const text = formatToken(new Uint8Array(32).fill(255));
  expect(text).toBe(`voidbox_${'_'.repeat(42)}8`);
  expect(isTokenText(text)).toBe(true);
});

test('a token is the base64url of its bytes', () => {
  const random = Uint8Array.from({ length: 32 }, (_, index) => (index * 37 + 11) % 256);
  expect(formatToken(random)).toBe(`voidbox_${Buffer.from(random).toString('base64url')}`);
});

test('a token of another length is not made', () => {
  expect(() => formatToken(new Uint8Array(16))).toThrow('32 bytes');
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
