import { expect, test } from 'vitest';
import { cutStoredText, fromStoredText, toStoredText } from './stored-text.ts';

test.each([
  ['plain', 'plain'],
  ['a\\b', 'a\\\\b'],
  ['a\0b', 'a\\0b'],
  ['\\0', '\\\\0'],
  ['\uD800', '\\ud800'],
  ['\uDC00\uD800', '\\udc00\\ud800'],
  ['\\ud800', '\\\\ud800'],
  ['😀', '😀'],
  ['\uD83D😀\uDE00', '\\ud83d😀\\ude00'],
  ['', ''],
])('%j is stored as %j, and read as it was', (text, stored) => {
  expect(toStoredText(text)).toBe(stored);
  expect(fromStoredText(stored)).toBe(text);
  expect(Buffer.from(stored).toString()).toBe(stored);
});

test('a long text is cut to bytes, whatever its characters are', () => {
  for (const text of ['a', '\0', '\uD800', 'ü', '😀', '\\'])
    expect(Buffer.byteLength(cutStoredText(text.repeat(10_000), 8_192))).toBeLessThanOrEqual(8_192);
  expect(cutStoredText('short', 8_192)).toBe('short');
});
