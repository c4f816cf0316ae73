import { expect, test } from 'vitest';
import { HEADER_CHARACTERS, readCloudEvent, readTraceparent, selectEventHeaders } from './event-headers.ts';
import type { HookHeaders } from './hook-request.ts';

function toHeaders(...headers: readonly (readonly [string, ...string[]])[]): HookHeaders {
  return new Map(headers.map(([name, ...values]) => [name, values]));
}

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

test('a delivery has the headers of its event, and none of its proof or a login', () => {
  const headers = toHeaders(
    ['x-github-event', 'push'],
    ['ce-type', 'a', 'b'],
    ['x-hub-signature-256', 'sha256=00'],
    ['x-gitlab-token', 'secret'],
    ['stripe-signature', 't=1'],
    ['webhook-signature', 'v1,x'],
    ['authorization', 'Bearer x'],
    ['cookie', 'a=b'],
    ['x-forwarded-for', '192.0.2.1'],
    ['__proto__', 'x'],
    ['ce-__proto__', 'x'],
  );
  expect(selectEventHeaders(headers)).toEqual({ 'x-github-event': 'push', 'ce-type': 'a, b' });
});

test('long and many headers are left out', () => {
  const long = toHeaders(['user-agent', 'x'.repeat(HEADER_CHARACTERS)], ['ce-a', 'x'.repeat(HEADER_CHARACTERS + 1)]);
  expect(Object.keys(selectEventHeaders(long))).toEqual(['user-agent']);
  const many = toHeaders(...Array.from({ length: 70 }, (_, at) => [`ce-a${at}`, 'x'] as const));
  expect(Object.keys(selectEventHeaders(many))).toHaveLength(64);
});

test.each([
  [TRACE, [TRACE]],
  [null, []],
  [null, [TRACE, TRACE]],
  [null, [TRACE.toUpperCase()]],
  [null, [`${TRACE}-x`]],
  [null, [TRACE.replace(/[0-9a-f]{32}/, '0'.repeat(32))]],
  [null, [TRACE.replace(/-b7ad6b7169203331/, `-${'0'.repeat(16)}`)]],
])('the trace context is %s for %j', (expected, values) => {
  expect(readTraceparent(new Map([['traceparent', values]]))).toBe(expected);
});

test('an event of CloudEvents has a version, a source and an id', () => {
  const whole = [
    ['ce-specversion', '1.0'],
    ['ce-source', '/a'],
    ['ce-id', '1'],
  ] as const;
  expect(readCloudEvent(toHeaders(...whole))).toEqual({ source: '/a', id: '1' });
  for (const [name] of whole) {
    expect(readCloudEvent(toHeaders(...whole.filter((header) => header[0] !== name)))).toBeNull();
    expect(readCloudEvent(new Map([...toHeaders(...whole), [name, ['1.0', '1.0']]]))).toBeNull();
  }
  expect(readCloudEvent(toHeaders(...whole.slice(1), ['ce-specversion', '0.3']))).toBeNull();
});
