import { createServer } from 'node:net';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { freePorts, isFree } from './ports.ts';

it('`freePorts` returns different ports, however many', async () => {
  // The kernel has some 14,000 to choose from: of 1,000 that are let go at once, dozens come twice.
  const ports = await freePorts(1_000);
  expect(new Set(ports).size).toBe(1_000);
});

it('`freePorts` releases the ports that it found', async () => {
  // Another process may take a port in between, so other ports are tried.
  await expect
    .poll(async () => await Promise.all((await freePorts(3)).map(isFree)), { interval: 1 })
    .toEqual([true, true, true]);
});

it('`isFree` detects a port with a listener', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  expect(await isFree(port)).toBe(false);
  server.close();
});
