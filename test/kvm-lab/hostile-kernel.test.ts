import { expect, test } from 'vitest';
import { findTestProgram } from './hostile-kernel.ts';

test('the program of the test is the one that cargo names for it', () => {
  const library = { reason: 'compiler-artifact', target: { name: 'voidbox_vmm', kind: ['lib'] }, executable: null };
  const binary = { reason: 'compiler-artifact', target: { name: 'ring0', kind: ['bin'] }, executable: '/other' };
  const wanted = { reason: 'compiler-artifact', target: { name: 'ring0', kind: ['test'] }, executable: '/wanted' };
  const end = { reason: 'build-finished', success: true };
  const lines = (...messages: readonly unknown[]): string =>
    `${messages.map((message) => JSON.stringify(message)).join('\n')}\n`;
  expect(findTestProgram(lines(library, binary, wanted, end))).toBe('/wanted');
  expect(findTestProgram(lines(library, binary, end))).toBeNull();
});
