/** The listeners of the API over TCP, with a list of connections instead of the API. */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { TcpSource } from '../../client/embedded/api-messages.ts';
import type { ApiListener } from '../../client/embedded/control.ts';
import { keepListenRecord, type ListenRecord, removeListenRecord } from '../../client/embedded/listen-file.ts';
import { type ApiTcpDoor, openApiTcpDoor } from './api-tcp-door.ts';

const LOCAL: ListenRecord = {
  listen: [{ host: '127.0.0.1', port: 0 }],
  publicUrl: null,
  tls: null,
  behindProxy: false,
  specRoot: null,
};

interface Given {
  readonly socket: Socket;
  readonly findSource: () => TcpSource | null;
}

let stateDir: string;
let given: Given[];
let ends: number;
let problems: string[];
let urls: string[];
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-tcp-door-'));
  [given, ends, problems, urls] = [[], 0, [], []];
  onTestFinished(() => rmSync(stateDir, { recursive: true }));
});

async function openDoor(record: ListenRecord | null): Promise<ApiTcpDoor> {
  if (record !== null) keepListenRecord(stateDir, record);
  const door = openApiTcpDoor({
    stateDir,
    api: { giveTcp: (socket, findSource) => void given.push({ socket, findSource }), endTcp: () => (ends += 1) },
    onProblem: (message) => problems.push(message),
    onListen: (url) => urls.push(url),
    againMs: 50,
  });
  onTestFinished(() => {
    door.close();
    for (const { socket } of given) socket.destroy();
  });
  expect(door.getState().phase).toBe('starting');
  await waitUntilReady(door);
  return door;
}

async function waitUntilReady(door: ApiTcpDoor): Promise<void> {
  await expect.poll(() => door.getState().phase).toBe('ready');
}

async function change(door: ApiTcpDoor, record: ListenRecord | null): Promise<void> {
  if (record === null) removeListenRecord(stateDir);
  else keepListenRecord(stateDir, record);
  door.apply();
  await waitUntilReady(door);
}

async function reach({ host, port }: ApiListener): Promise<boolean> {
  const socket = connect({ host, port });
  const isOpen = await new Promise<boolean>((resolve) => {
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
  });
  socket.destroy();
  return isOpen;
}

async function takePort(): Promise<{ readonly server: Server; readonly port: number }> {
  const server = createServer();
  server.listen({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { server, port: (server.address() as AddressInfo).port };
}

test('without a record the stack does not listen', async () => {
  const door = await openDoor(null);
  expect(door.getState()).toEqual({ phase: 'ready', problem: null, publicUrl: null, listeners: [] });
  expect(door.isWanted()).toBe(false);
});

test('each address has a listener, with the port that it got', async () => {
  const door = await openDoor({ ...LOCAL, listen: [...LOCAL.listen, { host: '::1', port: 0 }] });
  const { listeners } = door.getState();
  expect(listeners.map(({ url }) => url.replace(/\d+$/, 'PORT'))).toEqual([
    'http://127.0.0.1:PORT',
    'http://[::1]:PORT',
  ]);
  expect(await Promise.all(listeners.map(reach))).toEqual([true, true]);
  expect(urls).toEqual(listeners.map(({ url }) => url));
  expect(door.isWanted()).toBe(true);
  expect(problems).toEqual([]);
});

test('a connection brings the settings of its listener', async () => {
  const tls = { cert: '/cert', key: '/key' };
  const door = await openDoor({ ...LOCAL, tls, publicUrl: 'https://api.example', behindProxy: true });
  const [listener] = door.getState().listeners;
  expect(listener).toMatchObject({ tls: true, url: expect.stringMatching(/^https:/) as string });
  expect(await reach(listener!)).toBe(true);
  await expect.poll(() => given.length).toBe(1);
  const source = { listener: 'tcp', tls, publicUrl: 'https://api.example', behindProxy: true };
  expect(given[0]!.findSource()).toEqual(source);
});

test('the same record keeps its listeners and connections', async () => {
  const door = await openDoor(LOCAL);
  const before = door.getState();
  const endsBefore = ends;
  await change(door, LOCAL);
  expect(door.getState()).toEqual(before);
  expect(ends).toBe(endsBefore);
});

test('another record ends the connections, and gives none of the earlier record to the API', async () => {
  const door = await openDoor(LOCAL);
  const [listener] = door.getState().listeners;
  await reach(listener!);
  await expect.poll(() => given.length).toBe(1);
  const endsBefore = ends;
  await change(door, { ...LOCAL, behindProxy: true });
  expect(door.getState().listeners).toEqual([listener]);
  expect(ends).toBe(endsBefore + 1);
  expect(given[0]!.findSource()).toBeNull();
  await reach(listener!);
  await expect.poll(() => given.length).toBe(2);
  expect(given[1]!.findSource()).toMatchObject({ behindProxy: true });
});

test('a removed record closes the listeners, and a new one opens them', async () => {
  const door = await openDoor(LOCAL);
  const [listener] = door.getState().listeners;
  await change(door, null);
  expect(door.getState().listeners).toEqual([]);
  expect(door.isWanted()).toBe(false);
  expect(await reach(listener!)).toBe(false);
  await change(door, { ...LOCAL, listen: [{ host: '127.0.0.1', port: listener!.port }] });
  expect(await reach(listener!)).toBe(true);
});

test('a port in use is the problem of its listener only, and is tried again', async () => {
  const { server, port } = await takePort();
  const listen = [{ host: '127.0.0.1', port }, ...LOCAL.listen];
  const door = await openDoor({ ...LOCAL, listen });
  const [taken, other] = door.getState().listeners;
  expect(taken).toMatchObject({ port, problem: 'another program uses the port' });
  expect([other!.problem, await reach(other!)]).toEqual([null, true]);
  expect(door.isWanted()).toBe(true);
  server.close();
  await expect.poll(() => door.getState().listeners[0]!.problem).toBeNull();
  expect(await reach(taken!)).toBe(true);
  expect(problems).toEqual([`cannot listen on 127.0.0.1:${port}: another program uses the port`]);
});

test('an address that the machine does not have is named as such', async () => {
  const door = await openDoor({
    ...LOCAL,
    listen: [
      { host: '127.0.0.1', port: 0 },
      { host: '192.0.2.7', port: 8080 },
    ],
    behindProxy: true,
  });
  expect(door.getState().listeners[1]).toMatchObject({ problem: 'this machine does not have the address' });
});

test('a file that cannot be used closes all listeners', async () => {
  const door = await openDoor(LOCAL);
  const [listener] = door.getState().listeners;
  writeFileSync(join(stateDir, 'listen.json'), '{}');
  door.apply();
  await waitUntilReady(door);
  expect(door.getState()).toMatchObject({ problem: expect.stringContaining('listen.json') as string, listeners: [] });
  expect(await reach(listener!)).toBe(false);
  expect(door.isWanted()).toBe(false);
});

test('a file without TLS for an address beyond this machine opens no listener', async () => {
  const text = { listen: [{ host: '0.0.0.0', port: 0 }], publicUrl: null, tlsCert: null, tlsKey: null };
  keepListenRecord(stateDir, LOCAL);
  writeFileSync(join(stateDir, 'listen.json'), JSON.stringify({ ...text, behindProxy: false, specRoot: null }));
  const door = await openDoor(null);
  expect(door.getState()).toMatchObject({ problem: expect.stringContaining('without TLS') as string, listeners: [] });
});

test('a closed door listens no longer, also if a change was under way', async () => {
  const door = await openDoor(LOCAL);
  const [listener] = door.getState().listeners;
  door.apply();
  door.close();
  await waitUntilReady(door);
  expect(await reach(listener!)).toBe(false);
});
