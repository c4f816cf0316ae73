import { once } from 'node:events';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { type Context, Hono } from 'hono';
import { expect, test } from 'vitest';
import { type Connection, getClientAddress, onAnswered } from './listener.ts';

const NETWORK: Connection = { listener: 'tcp', address: '10.0.0.1', end: () => undefined };

async function findAddress(connection: Connection, forwarded: string | null): Promise<string | null> {
  const app = new Hono();
  app.get('/', (context) => context.json(getClientAddress(context)));
  const headers = forwarded === null ? {} : { 'x-forwarded-for': forwarded };
  return (await (await app.request('/', { headers }, { connection })).json()) as string | null;
}

test('`X-Forwarded-For` is ignored, unless each client is a proxy', async () => {
  expect(await findAddress(NETWORK, '192.0.2.7')).toBe('10.0.0.1');
  expect(await findAddress({ ...NETWORK, isFromProxy: true }, '192.0.2.7')).toBe('192.0.2.7');
});

test.each([
  ['198.51.100.1, 192.0.2.7', '192.0.2.7'],
  ['2001:db8::7', '2001:db8::7'],
  [null, '10.0.0.1'],
  ['', '10.0.0.1'],
  ['192.0.2.7, unknown', '10.0.0.1'],
  ['<script>', '10.0.0.1'],
])('behind a proxy, only the last address of %j counts', async (forwarded, address) => {
  expect(await findAddress({ ...NETWORK, isFromProxy: true }, forwarded)).toBe(address);
});

test('the Unix socket has no address, whatever a header says', async () => {
  const owner: Connection = { listener: 'unix', address: null, end: () => undefined };
  expect(await findAddress(owner, '192.0.2.7')).toBeNull();
  expect(await findAddress({ ...owner, isFromProxy: true }, '192.0.2.7')).toBeNull();
});

test('the end of an answer is reported once, also if its client has gone before', async () => {
  const socket = new Socket();
  const outgoing = new ServerResponse(new IncomingMessage(socket));
  outgoing.assignSocket(socket);
  const context = { env: { outgoing } } as unknown as Context;
  const reported: string[] = [];
  onAnswered(context, () => reported.push('before'));
  expect(reported).toEqual([]);
  socket.destroy();
  await once(outgoing, 'close');
  expect(reported).toEqual(['before']);
  onAnswered(context, () => reported.push('after'));
  expect(reported).toEqual(['before', 'after']);
});
