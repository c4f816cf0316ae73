import { expect, test } from 'vitest';
import { parseServicePlace } from './service-settings.ts';

test.each([
  ['https://build.example.org:7443', { kind: 'tcp', isTls: true, host: 'build.example.org', port: 7443 }],
  ['https://build/', { kind: 'tcp', isTls: true, host: 'build', port: 443 }],
  ['HTTPS://[fe80::1]:65535', { kind: 'tcp', isTls: true, host: 'fe80::1', port: 65_535 }],
  ['http://127.0.0.1:8080', { kind: 'tcp', isTls: false, host: '127.0.0.1', port: 8080 }],
  ['http://localhost', { kind: 'tcp', isTls: false, host: 'localhost', port: 80 }],
  ['http://[::1]:1', { kind: 'tcp', isTls: false, host: '::1', port: 1 }],
  ['unix:/state/api.sock', { kind: 'unix', path: '/state/api.sock' }],
])('%s is a place', (text, place) => {
  expect(parseServicePlace(text)).toEqual(place);
});

test.each([
  ['build:7443', 'is neither'],
  ['https://', 'is neither'],
  ['https://me:secret@build', 'is neither'],
  ['https://build/path', 'is neither'],
  ['https://build?x=1', 'is neither'],
  ['https://build:0', 'the port 0'],
  ['https://build:65536', 'the port 65536'],
  ['ftp://build', 'is neither'],
  ['http://build:80', 'without encryption'],
  ['http://127.0.0.1.example.org', 'without encryption'],
  ['unix:api.sock', 'no absolute path'],
])('%s is refused', (text, problem) => {
  expect(parseServicePlace(text)).toMatchObject({ problem: expect.stringContaining(problem) });
});
