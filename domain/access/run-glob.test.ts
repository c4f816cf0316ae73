import { expect, test } from 'vitest';
import { isGlobMatch, maySeeRun } from './run-glob.ts';

test.each([
  ['nightly', 'nightly', true],
  ['nightly', 'nightly-1', false],
  ['nightly-*', 'nightly-1', true],
  ['nightly-*', 'nightly-', true],
  ['nightly-*', 'other-nightly-1', false],
  ['*', '', true],
  ['*-eu', 'a-eu', true],
  ['*-eu', 'a-eu-1', false],
  ['a*b', 'ab', true],
  ['a*a', 'a', false],
  ['a*b*c', 'axbxc', true],
  ['a*b*c', 'axcxb', false],
  ['a*b*b', 'ab', false],
  ['a*b*b', 'abb', true],
  ['**', 'anything', true],
  ['a.c', 'abc', false],
  ['[ab]', 'a', false],
  ['ü*', 'übung', true],
] as const)('the pattern %s and the id %s: %s', (glob, runId, expected) => {
  expect(isGlobMatch(glob, runId)).toBe(expected);
});

test('a token without patterns sees every run', () => {
  expect(maySeeRun([], 'any')).toBe(true);
});

test('a token with patterns sees the runs that one of them matches', () => {
  expect(['a-1', 'b-1', 'c-1'].filter((runId) => maySeeRun(['a-*', 'b-*'], runId))).toEqual(['a-1', 'b-1']);
});

test('a pattern of many asterisks is no slower than its length', () => {
  expect(isGlobMatch('*a'.repeat(400), `${'a'.repeat(999)}b`)).toBe(false);
});
