import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { listenOnSocket } from './unix-socket.ts';

let dir: string;
let path: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-unix-socket-'));
  path = join(dir, 'api.sock');
  onTestFinished(() => rmSync(dir, { recursive: true }));
});

/** Listens with a server that says its name. */
async function listen(name: string, at = path): Promise<Server> {
  const server = await listenOnSocket(at, join(dir, 'lock'), (socket) => void socket.end(name));
  onTestFinished(() => void server.close());
  return server;
}

async function askName(): Promise<string> {
  const socket = connect({ path });
  const [name] = (await once(socket.setEncoding('utf8'), 'data')) as [string];
  socket.destroy();
  return name;
}

/** Leaves a socket that no process serves. */
async function leaveSocket(): Promise<void> {
  const server = createServer().listen({ path: join(dir, 'first') });
  await once(server, 'listening');
  linkSync(join(dir, 'first'), path);
  server.close();
  await once(server, 'close');
}

test('only this user may connect, and the socket is gone after the end', async () => {
  const server = await listen('one');
  expect(statSync(path).mode & 0o777).toBe(0o600);
  server.close();
  expect(existsSync(path)).toBe(false);
});

test('a socket that no process serves is replaced', async () => {
  await leaveSocket();
  expect(existsSync(path)).toBe(true);
  await listen('second');
  expect(await askName()).toBe('second');
});

test('a socket that a process serves stays', async () => {
  await listen('first');
  await expect(listen('second')).rejects.toMatchObject({
    message: `another process serves the socket ${path}`,
    remedy: expect.stringContaining('--listen unix:PATH') as string,
  });
  expect(await askName()).toBe('first');
});

test('a service that ends leaves the socket of a later service at its path', async () => {
  const first = await listen('first');
  rmSync(path);
  await listen('second');
  first.close();
  expect(await askName()).toBe('second');
  expect(readdirSync(dir).toSorted()).toEqual(['api.sock', 'lock']);
});

test('a path of the longest length is used, and is gone after the end', async () => {
  const folder = join(dir, 'f'.repeat(107 - Buffer.byteLength(dir) - 4));
  mkdirSync(folder);
  const longest = join(folder, 's');
  expect(Buffer.byteLength(longest)).toBe(106);
  const server = await listen('one', longest);
  expect(statSync(longest).mode & 0o777).toBe(0o600);
  server.close();
  expect(readdirSync(folder)).toEqual([]);
});

test('if several begin at once at a socket without a process, one serves it', async () => {
  await leaveSocket();
  const all = await Promise.allSettled(['a', 'b', 'c', 'd'].map((name) => listen(name)));
  const [served] = all.flatMap(({ status }, at) => (status === 'fulfilled' ? ['abcd'[at]] : []));
  expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  expect(await askName()).toBe(served);
});

test('a path that is not a socket is refused, and stays', async () => {
  writeFileSync(path, 'kept');
  await expect(listen('one')).rejects.toThrow('the path exists and is not a socket');
  expect(statSync(path).size).toBe(4);
});

test('a folder that others can write to is refused, unless each user removes only own files there', async () => {
  mkdirSync(join(dir, 'shared'));
  const shared = join(dir, 'shared', 'a.sock');
  for (const mode of [0o777, 0o770, 0o772]) {
    chmodSync(join(dir, 'shared'), mode);
    await expect(listen('one', shared)).rejects.toMatchObject({
      message: expect.stringContaining(`has the mode ${mode.toString(8)}`) as string,
      remedy: expect.stringContaining('chmod go-w') as string,
    });
  }
  chmodSync(join(dir, 'shared'), 0o1777);
  await listen('one', shared);
});

test('a missing folder, and a file instead of a folder, are refused', async () => {
  await expect(listen('one', join(dir, 'none', 'a.sock'))).rejects.toThrow('no such file or directory');
  writeFileSync(join(dir, 'file'), '');
  await expect(listen('one', join(dir, 'file', 'a.sock'))).rejects.toThrow('is not a folder');
});
