import { expect, test } from 'vitest';
import { composeFrame } from './run-display.ts';

test('a frame erases the block before it, prints new lines, then the new block', () => {
  expect(composeFrame(2, ['new'], ['one', 'two', 'three'])).toBe('\u001b[2A\r\u001b[Jnew\none\ntwo\nthree\n');
});

test('the first frame erases nothing, and nothing to show writes nothing', () => {
  expect(composeFrame(0, ['new'], [])).toBe('new\n');
  expect(composeFrame(0, [], [])).toBe('');
});
