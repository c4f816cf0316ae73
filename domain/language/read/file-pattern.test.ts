import { describe, expect, test } from 'vitest';
import {
  advancePattern,
  type FilePattern,
  isMatch,
  mayHoldMatch,
  PATTERN_LIMITS,
  patternOf,
  startOf,
} from './file-pattern.ts';

function read(text: string): FilePattern {
  const pattern = patternOf(text);
  if ('problem' in pattern) throw new Error(pattern.problem);
  return pattern;
}

function stateAt(pattern: FilePattern, path: string): readonly number[] {
  return path.split('/').reduce((state, name) => advancePattern(pattern, state, name), startOf(pattern));
}

function isListed(text: string, path: string): boolean {
  const pattern = read(text);
  return isMatch(pattern, stateAt(pattern, path));
}

describe('matches of a pattern', () => {
  test.each([
    ['data/*.csv', 'data/a.csv'],
    ['./data//*.csv', 'data/a.csv'],
    ['*', 'a'],
    ['a?c', 'aöc'],
    ['a?c', 'a😀c'],
    ['a*b*c', 'aXbYbZc'],
    ['**/*.csv', 'a.csv'],
    ['**/*.csv', 'x/y/a.csv'],
    ['**/**/*.csv', 'x/a.csv'],
    ['data/**', 'data/x/a'],
    ['**/x/**/a', 'x/x/y/a'],
    ['.config/*', '.config/a'],
    ['**/.env', 'x/.env'],
  ])('%s: %s', (pattern, path) => expect(isListed(pattern, path)).toBe(true));

  test.each([
    ['data/*.csv', 'data/x/a.csv'],
    ['data/*.csv', 'data/a.csv.gz'],
    ['data/*.csv', 'other/a.csv'],
    ['a?c', 'ac'],
    ['*', '.hidden'],
    ['**/a', '.git/a'],
    ['data/**', 'data'],
    ['a.c', 'abc'],
    ['A', 'a'],
  ])('%s: not %s', (pattern, path) => expect(isListed(pattern, path)).toBe(false));

  test('a walk enters a folder only if the pattern may match a file in it', () => {
    const pattern = read('data/*/a');
    expect(mayHoldMatch(pattern, stateAt(pattern, 'data'))).toBe(true);
    expect(mayHoldMatch(pattern, stateAt(pattern, 'data/x/a'))).toBe(false);
    expect(mayHoldMatch(pattern, stateAt(pattern, 'other'))).toBe(false);
  });

  test('patterns with many stars and many folders are fast', () => {
    expect(isListed(`${'a*'.repeat(200)}b`, 'a'.repeat(255))).toBe(false);
    expect(isListed(`${'**/x/'.repeat(15)}y`, `${'x/'.repeat(60)}z`)).toBe(false);
  });
});

test.each([
  ['', 'contains no name of a file'],
  ['./', 'contains no name of a file'],
  ['/etc/*', 'is absolute'],
  ['../*', 'leaves the folder'],
  ['a/../../b', 'leaves the folder'],
  ['*.{a,b}', 'has "{"'],
  ['[ab]', 'has "["'],
  ['a\\*', 'has "\\\\"'],
  ['a\0', 'has "\\u0000"'],
  ['a**', 'with other characters'],
  ['a'.repeat(PATTERN_LIMITS.characters + 1), 'has 513 characters; at most 512 are allowed'],
  ['a/'.repeat(PATTERN_LIMITS.segments + 1), 'has 33 names between slashes; at most 32 are allowed'],
])('the pattern %j is refused', (text, problem) => {
  expect(patternOf(text)).toMatchObject({ problem: expect.stringContaining(problem) });
});

test('a pattern of the largest size is accepted', () => {
  expect(patternOf('a'.repeat(PATTERN_LIMITS.characters))).toHaveProperty('segments');
  expect(read('a/'.repeat(PATTERN_LIMITS.segments)).segments).toHaveLength(PATTERN_LIMITS.segments);
});
