import { expect, test } from 'vitest';
import { sumSeconds } from './disk-copies.ts';

test('the CPU time of a command is the sum of its user and system time', () => {
  expect(sumSeconds('0.012 0.310\n')).toBeCloseTo(0.322);
  for (const text of ['', '0.1\n', 'cp: no space\n0.1 0.2\n']) expect(() => sumSeconds(text)).toThrow('not the times');
});
