import { expect, test } from 'vitest';
import { readLastState, readLastStates } from './line-state.ts';

test('a line is its last state that has a character', () => {
  for (const [line, state] of [
    ['plain', 'plain'],
    ['\rstep 1\rstep 2', 'step 2'],
    ['step 1\r', 'step 1'],
    ['step 1\r\r', 'step 1'],
    ['\r', ''],
    ['', ''],
  ] as const)
    expect(readLastState(line)).toBe(state);
});

test('each line of a text is its last state', () => {
  expect(readLastStates('a\r\n1 %\r2 %\nb')).toBe('a\n2 %\nb');
  expect(readLastStates('a\nb\n')).toBe('a\nb\n');
});
