import { expect, test } from 'vitest';
import { API_READY, parseApiNews, parseApiOrder } from './api-messages.ts';

const TCP = { listener: 'tcp', tls: { cert: '/c', key: '/k' }, publicUrl: 'https://api.example', behindProxy: false };

test('messages of the API arrive as they were sent', () => {
  expect(parseApiNews(API_READY)).toEqual(API_READY);
  expect(parseApiNews({ taken: 2 })).toEqual({ taken: 2 });
  expect(parseApiNews({ closed: 3, closedTcp: 1 })).toEqual({ closed: 3, closedTcp: 1 });
});

test.each([null, 'ready', 7, {}, { closed: 3 }, { ready: 1 }, { taken: '1' }])('the news %j are ignored', (message) => {
  expect(parseApiNews(message)).toBeNull();
});

test.each([
  { close: 'tcp' },
  { connection: { listener: 'unix' } },
  { connection: TCP },
  { connection: { ...TCP, tls: null, publicUrl: null } },
])('the order %j arrives as it was sent', (order) => {
  expect(parseApiOrder(order)).toEqual(order);
});

test.each([
  null,
  'connection',
  {},
  { close: 'unix' },
  { connection: {} },
  { connection: { listener: 'other' } },
  { connection: { listener: 'tcp' } },
  { connection: { ...TCP, tls: undefined } },
  { connection: { ...TCP, tls: { cert: '/c' } } },
  { connection: { ...TCP, publicUrl: undefined } },
  { connection: { ...TCP, behindProxy: undefined } },
])('the order %j gives no connection any rights', (order) => {
  expect(parseApiOrder(order)).toBeNull();
});
