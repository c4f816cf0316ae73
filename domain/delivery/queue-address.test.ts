import { expect, test } from 'vitest';
import {
  findRefusedBroker,
  formatBrokerAddress,
  formatNatsServer,
  isLocalHost,
  parseBrokerAddress,
  parseNatsServer,
} from './queue-address.ts';

test.each([
  ['nats.example', 'nats.example:4222'],
  ['NATS.example:1', 'nats.example:1'],
  ['10.0.0.7:65535', '10.0.0.7:65535'],
  ['[::1]:4223', '[::1]:4223'],
  ['[fd00::7]', '[fd00::7]:4222'],
  ['my_broker', 'my_broker:4222'],
  [`${'a'.repeat(253)}`, `${'a'.repeat(253)}:4222`],
])('%s is the address of a broker', (text, written) => {
  expect(formatBrokerAddress(parseBrokerAddress(text)!)).toBe(written);
});

test.each([
  '',
  ':4222',
  'a:0',
  'a:65536',
  'a:',
  '::1',
  'a..b',
  '-a',
  '.a',
  'a.',
  'a b',
  'user@a',
  'a/b',
  'a,b',
  'nats://a',
  'a'.repeat(254),
  'a\n',
  'ä.example',
])('%j is not the address of a broker', (text) => {
  expect(parseBrokerAddress(text)).toBeNull();
});

test.each([
  ['tls://nats.example', 'tls://nats.example:4222'],
  ['NATS://[::1]:5', 'nats://[::1]:5'],
])('%s is the address of a server', (text, written) => {
  expect(formatNatsServer(parseNatsServer(text)!)).toBe(written);
});

test.each(['nats.example:4222', 'ws://a', 'nats://user:secret@a', 'nats://a/', 'nats://a?tls=0', 'nats://', 'tls:a'])(
  '%s is not the address of a server',
  (text) => {
    expect(parseNatsServer(text)).toBeNull();
  },
);

test.each([
  ['localhost', true],
  ['127.0.0.1', true],
  ['127.9.9.9', true],
  ['::1', true],
  ['127.0.0.1.example', false],
  ['localhost.example', false],
  ['10.0.0.1', false],
])('%s is a host that only this machine reaches: %s', (host, isLocal) => {
  expect(isLocalHost(host)).toBe(isLocal);
});

test('each server needs an allowance of its host and port', () => {
  const servers = ['tls://a.example:4222', 'tls://b.example:5'];
  expect(findRefusedBroker(servers, ['a.example:4222', 'b.example:5'])).toBeNull();
  expect(findRefusedBroker(servers, ['a.example:4222', 'b.example:4222'])).toBe('b.example:5');
  expect(findRefusedBroker(servers, [])).toBe('a.example:4222');
  expect(findRefusedBroker(['tls://a.example:4222.evil.example'], ['a.example:4222'])).toBe(
    'tls://a.example:4222.evil.example',
  );
});
