import { expect, test } from 'vitest';
import { refusal, type DoorRequest } from './ui-guard.ts';

const page: DoorRequest = {
  method: 'GET',
  target: '/',
  host: '127.0.0.1:8000',
  origin: undefined,
  fetchSite: undefined,
  fetchMode: undefined,
};
const refused = (change: Partial<DoorRequest>): string | null => refusal({ ...page, ...change }, 8000);

test('the guard accepts the pages of the UI and their requests', () => {
  expect(refused({})).toBeNull();
  expect(refused({ host: 'localhost:8000', fetchSite: 'none', fetchMode: 'navigate' })).toBeNull();
  expect(refused({ target: '/api/v1/namespaces', fetchSite: 'same-origin', fetchMode: 'cors' })).toBeNull();
  expect(
    refused({
      method: 'POST',
      target: '/api/v1/x',
      origin: 'http://127.0.0.1:8000',
      fetchSite: 'same-origin',
      fetchMode: 'cors',
    }),
  ).toBeNull();
});

test('follows a link from another page to a page of the UI, and to none of its data', () => {
  const link = { fetchSite: 'cross-site', fetchMode: 'navigate' };
  expect(refused({ target: '/namespaces/default/workflows/x', ...link })).toBeNull();
  expect(refused({ target: '/api/v1/namespaces', ...link })).toContain('other sites');
  expect(refused({ target: '/', fetchSite: 'cross-site', fetchMode: 'no-cors' })).toContain('other sites');
  expect(refused({ target: '/', fetchSite: 'same-site', fetchMode: 'cors' })).toContain('other sites');
});

test.each<[string, Partial<DoorRequest>]>([
  [
    'a name that was made to point here',
    { host: 'evil.example:8000', origin: 'http://evil.example:8000', fetchSite: 'same-origin' },
  ],
  ['a name with the right beginning', { host: '127.0.0.1:8000.evil.example' }],
  ['another port', { host: '127.0.0.1:8001' }],
  ['no Host', { host: undefined }],
])('the guard rejects the Host of %s', (_what, change) => {
  expect(refused(change)).toContain('Host');
});

test.each<[string, Partial<DoorRequest>]>([
  ['another site', { method: 'POST', origin: 'http://evil.example' }],
  ['another port of this machine', { method: 'POST', origin: 'http://127.0.0.1:3000' }],
  ['the other name of this machine', { method: 'POST', origin: 'http://localhost:8000' }],
  ['a sandboxed frame', { method: 'POST', origin: 'null' }],
  ['another site that reads', { origin: 'http://evil.example' }],
])('the guard rejects the Origin of %s', (_what, change) => {
  expect(refused(change)).toContain('other origins');
});

test('the guard rejects writes without an Origin, other methods and targets that are no path', () => {
  expect(refused({ method: 'POST' })).toContain('Origin');
  expect(refused({ method: 'OPTIONS' })).toContain('OPTIONS');
  expect(refused({ method: 'CONNECT' })).toContain('CONNECT');
  expect(refused({ target: 'http://evil.example/' })).toContain('path');
});
