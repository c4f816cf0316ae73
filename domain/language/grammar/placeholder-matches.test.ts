import { expect, test } from 'vitest';
import { matchPlaceholders } from './placeholder-matches.ts';

/** The grammar as one expression, whose time for a hostile text is the square of its length. */
const GRAMMAR = /\$\$\{\{|\$\{\{((?:[^{}"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*)\}\}|\$\{\{([^{}]*)\}\}|\$\{\{/gs;

test.each([
  ['${{ params.a }} and ${{ b }}', [' params.a ', ' b ']],
  ['$${{ a }}', [undefined]],
  ['${{ a', [undefined]],
  ['${{ stages["a}}b"].output }}', [' stages["a}}b"].output ']],
  ["${{ it's }}", [" it's "]],
])('the placeholders of %j', (text, inner) => {
  expect([...matchPlaceholders(text)].map((match) => match.inner)).toEqual(inner);
});

test('the grammar finds the same placeholders in random texts', () => {
  const parts = ['${{', '$', '{', '}', '}}', '"', "'", '\\', 'a', ' ', '\n', '😀'];
  let seed = 7;
  const next = (most: number): number => (seed = (seed * 48_271) % 2_147_483_647) % most;
  for (let round = 0; round < 20_000; round += 1) {
    const text = Array.from({ length: next(16) }, () => parts[next(parts.length)]!).join('');
    const expected = [...text.matchAll(GRAMMAR)].map(({ 0: found, 1: quoted, 2: plain, index }) => ({
      index,
      found,
      inner: quoted ?? plain,
    }));
    expect([...matchPlaceholders(text)], text).toEqual(expected);
  }
});

test.each(['${{\\"', '${{"', '${{\'\\"', '${{', '$', '${{ a }}', '${{"a"}}'])(
  'a text of %j is read in time in proportion to its length',
  (part) => {
    const text = part.repeat(Math.ceil((1024 * 1024) / part.length));
    const beganMs = performance.now();
    for (const _ of matchPlaceholders(text));
    expect(performance.now() - beganMs).toBeLessThan(2_000);
  },
);
