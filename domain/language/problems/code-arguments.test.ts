import { expect, test } from 'vitest';
import { codeArguments } from './code-arguments.ts';

test.each([
  ['node', ['-e', 'CODE'], [[1, 'node']]],
  ['sh', ['-euc', 'CODE', 'a'], [[1, 'sh']]],
  ['env', ['python3', '-c', 'CODE'], [[2, 'python3']]],
  ['awk', ['CODE', 'file'], [[0, 'awk']]],
  ['node', ['-e'], []],
  ['env', ['perl', '-e'], []],
  ['sh', ['-c'], []],
  ['sh', ['-c', '--'], []],
  ['awk', [], []],
  ['node', [], []],
] as const)('%s with the arguments %j has code at %j', (program, args, expected) => {
  expect([...codeArguments(program, args)]).toEqual(expected);
});
