import { expect, test } from 'vitest';
import { COMPARE_USAGE, readArguments } from './arguments.ts';
import { FIGURE_NAMES } from './figures.ts';

test('a revision is compared over seven rounds and all figures', () => {
  expect(readArguments(['v1'])).toEqual({ kind: 'compare', base: 'v1', rounds: 7, names: FIGURE_NAMES });
});

test('options set the rounds and the figures', () => {
  const [only] = FIGURE_NAMES;
  expect(readArguments(['v1', '--rounds', '2', '--only', only!])).toMatchObject({ rounds: 2, names: [only] });
});

test.each([[['--help']], [['-h']], [['v1', '--help']]])('%j asks for the help', (args) => {
  expect(readArguments(args)).toEqual({ kind: 'help' });
});

test('the help names every figure', () => {
  for (const name of FIGURE_NAMES) expect(COMPARE_USAGE).toContain(name);
});

test.each([
  [[], 'the revision or folder to compare with is missing'],
  [['v1', 'v2'], 'one revision or folder is allowed, got also v2'],
  [['v1', '--rounds', '0'], '--rounds must be a whole number from 1, got 0'],
  [['v1', '--rounds', 'x'], '--rounds must be a whole number from 1, got x'],
  [['v1', '--only', 'nothing'], '--only nothing: there is no such figure'],
  [['v1', '--wrong'], "Unknown option '--wrong'"],
])('%j is wrong, and the problem names the value', (args, problem) => {
  expect(readArguments(args)).toEqual({ kind: 'wrong', problem: expect.stringContaining(problem) as string });
});
