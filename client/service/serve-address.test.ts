import { expect, test } from 'vitest';
import { findPathProblem, MOST_SOCKET_BYTES, parseServeAddress } from './serve-address.ts';

test.each([
  ['unix:/run/a.sock', { kind: 'unix', path: '/run/a.sock' }],
  ['unix:///run/a.sock', { kind: 'unix', path: '/run/a.sock' }],
  ['unix:a.sock', { kind: 'unix', path: '/cwd/a.sock' }],
  ['unix:../a.sock', { kind: 'unix', path: '/a.sock' }],
  ['tcp://127.0.0.1:43100', { kind: 'tcp', text: '127.0.0.1:43100' }],
  ['[::1]:80', { kind: 'tcp', text: '[::1]:80' }],
])('%s is an address', (text, address) => {
  expect(parseServeAddress(text, '/cwd')).toEqual(address);
});

test.each([
  ['unix:', 'names no socket'],
  ['unix://', 'names no socket'],
  ['unix:/run/', 'names no socket'],
  ['unix:/run/a\0b', 'names no socket'],
  ['unix://run/a.sock', 'no absolute path'],
  [`unix:/${'a'.repeat(MOST_SOCKET_BYTES)}`, 'a path of 108 bytes'],
])('%j is refused', (text, problem) => {
  expect(parseServeAddress(text, '/cwd')).toEqual({ problem: expect.stringContaining(problem) as string });
});

test('the longest path of a socket is counted in bytes', () => {
  expect(findPathProblem(`/${'a'.repeat(106)}`)).toBeNull();
  expect(findPathProblem(`/${'ü'.repeat(53)}`)).toBeNull();
  expect(findPathProblem(`/${'ü'.repeat(54)}`)).toContain('109 bytes');
});
