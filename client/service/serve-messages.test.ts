import { expect, test } from 'vitest';
import { parseServeNews, parseServeOrder, type ServeSettings } from './serve-messages.ts';

const SETTINGS: ServeSettings = {
  sockets: ['/run/a.sock'],
  listen: [{ host: '127.0.0.1', port: 0 }],
  publicUrl: null,
  tls: { cert: '/cert.pem', key: '/key.pem' },
  behindProxy: false,
  specRoot: '/specs',
  daemonHash: 'a'.repeat(64),
};

test('orders arrive as they were sent', () => {
  expect(parseServeOrder({ serve: SETTINGS })).toEqual({ serve: SETTINGS });
  expect(parseServeOrder({ stop: true })).toEqual({ stop: true });
});

test.each([
  null,
  'stop',
  { stop: false },
  { serve: { ...SETTINGS, sockets: [1] } },
  { serve: { ...SETTINGS, listen: [{ host: '127.0.0.1' }] } },
  { serve: { ...SETTINGS, tls: { cert: '/cert.pem' } } },
  { serve: { ...SETTINGS, behindProxy: undefined } },
  { serve: { ...SETTINGS, daemonHash: 'text' } },
])('%j is no order', (message) => {
  expect(parseServeOrder(message)).toBeNull();
});

test('news arrive as they were sent', () => {
  const listening = { listening: { sockets: ['/run/a.sock'], listeners: [] } };
  expect(parseServeNews(listening)).toEqual(listening);
  const problem = { problem: { message: 'no', remedy: null } };
  expect(parseServeNews(problem)).toEqual(problem);
  expect(parseServeNews({ listening: {} })).toBeNull();
  expect(parseServeNews(null)).toBeNull();
});
