import { expect, test } from 'vitest';
import { findRefusal, type GuardedRequest, type GuardRules } from './request-guard.ts';

const RULES: GuardRules = {
  hosts: ['192.0.2.7:8443', 'api.example'],
  listOrigins: (host) => [`https://${host}`],
  needsOrigin: false,
  isPage: () => false,
};
const REQUEST: GuardedRequest = {
  method: 'GET',
  target: '/api/v1/runs',
  host: '192.0.2.7:8443',
  origin: undefined,
  fetchSite: undefined,
  fetchMode: undefined,
};
const guard = (change: Partial<GuardedRequest>, rules: Partial<GuardRules> = {}): string | null =>
  findRefusal({ ...REQUEST, ...change }, { ...RULES, ...rules });

test('each host of the rules is accepted, with the origin of its own pages', () => {
  expect(guard({})).toBeNull();
  expect(guard({ host: 'api.example', origin: 'https://api.example', fetchSite: 'same-origin' })).toBeNull();
  expect(guard({ host: 'api.example', origin: 'https://192.0.2.7:8443' })).toContain('other origins');
});

test('a write needs an Origin only if the rules demand it', () => {
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
    expect(guard({ method })).toBeNull();
    expect(guard({ method }, { needsOrigin: true })).toContain('names its Origin');
    expect(guard({ method, origin: 'https://evil.example' })).toContain('other origins');
  }
});

test('a link of another site leads only to pages', () => {
  const link = { fetchSite: 'cross-site', fetchMode: 'navigate' };
  expect(guard(link)).toContain('other sites');
  expect(guard(link, { isPage: () => true })).toBeNull();
  expect(guard({ ...link, method: 'POST' }, { isPage: () => true })).toContain('other sites');
});

test('a form of a page without a referrer is accepted, and not one of another site in a sandbox', () => {
  const form = { method: 'POST', target: '/approvals/x', origin: 'null' };
  const rules = { isForm: (target: string) => target.startsWith('/approvals/') };
  expect(guard(form)).toContain('other origins');
  expect(guard(form, rules)).toBeNull();
  expect(guard({ ...form, fetchSite: 'same-origin' }, rules)).toBeNull();
  for (const fetchSite of ['cross-site', 'same-site', 'none'])
    expect(guard({ ...form, fetchSite }, rules), fetchSite).toContain('other origins');
  expect(guard({ ...form, target: '/api/v1/runs' }, rules)).toContain('other origins');
  expect(guard({ ...form, method: 'DELETE' }, rules)).toContain('other origins');
  expect(guard({ ...form, origin: 'https://evil.example' }, rules)).toContain('other origins');
});

test('rules name the targets that answer OPTIONS, and a request with an Origin is refused', () => {
  expect(guard({ method: 'OPTIONS' })).toContain('OPTIONS is not done here');
  const takesOptions = (target: string): boolean => target.startsWith('/hooks/');
  expect(guard({ method: 'OPTIONS' }, { takesOptions })).toContain('OPTIONS is not done here');
  expect(guard({ method: 'OPTIONS', target: '/hooks/a/b' }, { takesOptions })).toBeNull();
  const preflight = { method: 'OPTIONS', target: '/hooks/a/b', origin: 'https://evil.example' };
  expect(guard(preflight, { takesOptions })).toContain('other origins');
  expect(guard({ method: 'TRACE', target: '/hooks/a/b' }, { takesOptions })).toContain('TRACE is not done here');
});

test('rules without a host refuse every request', () => {
  expect(guard({}, { hosts: [] })).toContain('Host');
  expect(guard({ host: undefined }, { hosts: [] })).toContain('Host');
});
