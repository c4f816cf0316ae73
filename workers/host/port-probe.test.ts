import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { isPortClosed } from './port-probe.ts';

test('a port is closed once nothing listens there, and a server sees a connection without a byte', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  let bytes = 0;
  const connected = once(server, 'connection').then(async ([socket]: Socket[]) => {
    for await (const chunk of socket! as AsyncIterable<Buffer>) bytes += chunk.length;
  });
  expect(await isPortClosed(port, new AbortController().signal)).toBe(false);
  await connected;
  expect(bytes).toBe(0);
  server.close();
  await once(server, 'close');
  expect(await isPortClosed(port, new AbortController().signal)).toBe(true);
  expect(await isPortClosed(port, AbortSignal.abort())).toBe(false);
});
