import { once } from 'node:events';
import { existsSync, linkSync, mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { ConnectionSource } from '../client/embedded/api-messages.ts';
import type { ServeSettings } from '../client/service/serve-messages.ts';
import { openServeListeners } from './serve-listeners.ts';

let settings: ServeSettings;
let sources: ConnectionSource[];
let lines: string[];
beforeEach(() => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-serve-listeners-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  sources = [];
  lines = [];
  settings = {
    sockets: [join(dir, 'api.sock')],
    listen: [{ host: '127.0.0.1', port: 0 }],
    publicUrl: 'https://api.example',
    tls: null,
    behindProxy: true,
    specRoot: null,
    daemonHash: null,
  };
});

const open = (change: Partial<ServeSettings> = {}, workerSocket: string | null = null) =>
  openServeListeners({
    workerSocket,
    takeOverMs: 20,
    settings: { ...settings, ...change },
    lockFile: `${settings.sockets[0]!}.lock`,
    accept: (socket: Socket, source) => {
      sources.push(source);
      socket.destroy();
    },
    log: (line) => void lines.push(line),
  });

test('each connection has the source of its listener', async () => {
  const { sockets, listeners, close } = await open();
  onTestFinished(close);
  expect(sockets).toEqual(settings.sockets);
  const [{ host, port }] = listeners as [(typeof listeners)[number]];
  expect(listeners).toEqual([{ url: `http://127.0.0.1:${port}`, host, port, tls: false, problem: null }]);
  for (const place of [{ path: sockets[0]! }, { host, port }]) await once(connect(place), 'close');
  expect(sources).toEqual([
    { listener: 'unix' },
    { listener: 'tcp', tls: null, publicUrl: 'https://api.example', behindProxy: true },
  ]);
});

test('a port in use and an address of another machine name the remedy, and close what is open', async () => {
  const other = createServer().listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => void other.close());
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  await expect(open({ listen: [{ host: '127.0.0.1', port }] })).rejects.toMatchObject({
    message: `the API does not listen on 127.0.0.1:${port}: another program uses the port`,
    remedy: 'End the other program, or give another port: --listen HOST:PORT',
  });
  await expect(open({ listen: [{ host: '192.0.2.1', port: 0 }] })).rejects.toMatchObject({
    message: expect.stringContaining('this machine does not have the address') as string,
  });
  expect(existsSync(settings.sockets[0]!)).toBe(false);
});

test('a worker of the host finds the socket of one service of a folder, and of the next one when it has ended', async () => {
  const workerSocket = `${settings.sockets[0]!}-worker`;
  const first = await open({}, workerSocket);
  onTestFinished(first.close);
  expect(first.sockets).toEqual(settings.sockets);
  await once(connect({ path: workerSocket }), 'close');
  expect(sources).toEqual([{ listener: 'unix' }]);
  const second = await open({ sockets: [`${settings.sockets[0]!}-2`] }, workerSocket);
  onTestFinished(second.close);
  expect(lines).toEqual([expect.stringMatching(/^this service gets no times of schedules, and tries again: /)]);
  first.close();
  await expect.poll(() => lines.at(-1)).toBe('this service gets the times of schedules now');
  expect(lines).toHaveLength(2);
  const seen = sources.length;
  await once(connect({ path: workerSocket }), 'close');
  expect(sources.slice(seen)).toEqual([{ listener: 'unix' }]);
  second.close();
  expect(existsSync(workerSocket)).toBe(false);
});

test('a socket of a killed service is taken over, and a service that has ended takes over none', async () => {
  const workerSocket = `${settings.sockets[0]!}-worker`;
  const killed = createServer((socket) => socket.destroy()).listen({ path: `${workerSocket}-first` });
  await once(killed, 'listening');
  linkSync(`${workerSocket}-first`, workerSocket);
  const ended = await open({ sockets: [] }, workerSocket);
  ended.close();
  const waiting = await open({ sockets: [] }, workerSocket);
  onTestFinished(waiting.close);
  killed.close();
  await expect.poll(() => lines.at(-1)).toBe('this service gets the times of schedules now');
  await once(connect({ path: workerSocket }), 'close');
  expect(sources.at(-1)).toEqual({ listener: 'unix' });
  expect(lines.filter((line) => line.endsWith('now'))).toHaveLength(1);
});
