import { expect, test } from 'vitest';
import { isHostOpened, MOST_OPENED_HOSTS, parseOpenedHosts } from './opened-hosts.ts';

test.each([
  ['Ops.Internal', 'ops.internal'],
  ['ops.internal.:8080', 'ops.internal:8080'],
  ['10.1.2.3', '10.1.2.3'],
  ['fd00:0:0::1', '[fd00::1]'],
  ['[FD00::1]:443', '[fd00::1]:443'],
  ['localhost:08099', 'localhost:8099'],
])('a host is read: %s', (text, host) => {
  expect(parseOpenedHosts([text, text])).toEqual([host]);
});

test.each(['', '*', '*.internal', 'https://ops', 'ops/path', 'a b', 'ops:0', 'ops:65536', '[::1', 'a@b', '-a'])(
  'another text is refused: %s',
  (text) => {
    expect(() => parseOpenedHosts([text])).toThrow('it is not a host');
  },
);

test('a limit of hosts is reached at its exact value', () => {
  const hosts = Array.from({ length: MOST_OPENED_HOSTS + 1 }, (_, index) => `h${index}`);
  expect(parseOpenedHosts(hosts.slice(1))).toHaveLength(MOST_OPENED_HOSTS);
  expect(() => parseOpenedHosts(hosts)).toThrow('names 65 hosts; at most 64 are allowed');
});

test('a host is opened for all ports, or for one', () => {
  const opened = ['ops.internal', '10.1.2.3:8080', '[fd00::1]'];
  expect(isHostOpened(opened, 'ops.internal', 1)).toBe(true);
  expect(isHostOpened(opened, 'sub.ops.internal', 1)).toBe(false);
  expect(isHostOpened(opened, '10.1.2.3', 8080)).toBe(true);
  expect(isHostOpened(opened, '10.1.2.3', 80)).toBe(false);
  expect(isHostOpened(opened, 'fd00::1', 443)).toBe(true);
});
