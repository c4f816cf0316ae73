import { describe, expect, test } from 'vitest';
import { quote, shorten } from './quote.ts';

describe('quote', () => {
  test.each([
    ['a "text"', '"a \\"text\\""'],
    ['two\nlines', '"two\\nlines"'],
    [[1, 'b'], '[1,"b"]'],
    [undefined, 'nothing'],
    [null, 'null'],
  ])('writes %j on one line', (value, text) => {
    expect(quote(value)).toBe(text);
  });

  test('shows only the beginning of a long text, within its quotes', () => {
    expect(quote('x'.repeat(900_000))).toBe(`"${'x'.repeat(79)}…"`);
  });

  test('shows only the beginning of a long value', () => {
    expect(quote({ list: Array.from({ length: 100_000 }, () => 7) })).toHaveLength(80);
  });
});

test('a shortened text contains no half of a pair of surrogates', () => {
  expect(shorten('😀😀😀', 6)).toBe('😀😀😀');
  expect(shorten('😀😀😀', 5)).toBe('😀😀…');
  expect(shorten('😀😀😀', 4)).toBe('😀…');
});
