import { expect, test } from 'vitest';
import { findP95 } from './readers.ts';

test('95 of 100 values are at most the figure', () => {
  expect(findP95(Array.from({ length: 100 }, (_, at) => 100 - at))).toBe(95);
  expect(findP95([3])).toBe(3);
  expect(findP95([])).toBeNaN();
});
