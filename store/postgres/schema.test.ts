import { expect, test } from 'vitest';
import { findVersionProblem } from './schema.ts';

test.each([150_000, 160_009, 170_002, 180_004, 189_999])('a server of version %i is used', (version) => {
  expect(findVersionProblem(version)).toBeNull();
});

test.each([
  [149_999, 14],
  [190_000, 19],
])('a server of version %i is refused', (version, major) => {
  expect(findVersionProblem(version)).toBe(`it is PostgreSQL ${major}, and this version of Voidbox uses 15 to 18`);
});
