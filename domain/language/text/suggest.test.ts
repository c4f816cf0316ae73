import { expect, test } from 'vitest';
import { findNearest } from './suggest.ts';
test('words of another length do not use up the candidates', () => {
  const others = Array.from({ length: 500 }, (_, at) => `another-word-${at}`);
  expect(findNearest('secret', [...others, 'secrets'])).toBe('secrets');
});
