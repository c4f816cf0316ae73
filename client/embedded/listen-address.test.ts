import { expect, test } from 'vitest';
import { formatAuthority, isLoopback, parseListenAddress, toPlainAddress } from './listen-address.ts';

test.each([
  ['127.0.0.1:8080', { host: '127.0.0.1', port: 8080 }, true],
  ['127.9.9.9:0', { host: '127.9.9.9', port: 0 }, true],
  ['localhost:8080', { host: '127.0.0.1', port: 8080 }, true],
  ['[::1]:8080', { host: '::1', port: 8080 }, true],
  ['[0:0:0:0:0:0:0:1]:8080', { host: '::1', port: 8080 }, true],
  ['0.0.0.0:443', { host: '0.0.0.0', port: 443 }, false],
  ['[::]:443', { host: '::', port: 443 }, false],
  ['192.0.2.7:65535', { host: '192.0.2.7', port: 65_535 }, false],
  ['[2001:DB8::7]:443', { host: '2001:db8::7', port: 443 }, false],
  ['[::ffff:127.0.0.1]:443', { host: '::ffff:7f00:1', port: 443 }, false],
])('%s is an address', (text, address, isLocal) => {
  expect(parseListenAddress(text)).toEqual(address);
  expect(isLoopback(address.host)).toBe(isLocal);
  expect(parseListenAddress(formatAuthority(address))).toEqual(address);
});

test.each([
  '',
  '8080',
  ':8080',
  '*:8080',
  '127.0.0.1',
  '127.0.0.1:',
  '127.0.0.1:65536',
  '127.0.0.1:-1',
  '127.0.0.1:8080 ',
  '127.1:8080',
  '1.2.3.4.5:80',
  '::1:8080',
  '[127.0.0.1]:80',
  '[::1]',
  '[fe80::1%eth0]:80',
  'api.example:443',
  'http://127.0.0.1:80',
])('%j is no address', (text) => {
  expect(parseListenAddress(text)).toBeNull();
});

test('an address of version 4 has one form', () => {
  expect(toPlainAddress('::ffff:192.0.2.7')).toBe('192.0.2.7');
  expect(toPlainAddress('192.0.2.7')).toBe('192.0.2.7');
  expect(toPlainAddress('::1')).toBe('::1');
});
