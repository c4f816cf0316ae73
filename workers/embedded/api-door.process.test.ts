/** The socket of the API, with a small server instead of the API. */
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { request } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import type { TcpSource } from '../../client/embedded/api-messages.ts';
import { locateApiSocket } from '../../client/embedded/api-socket.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { type ApiDoor, type ApiDoorOptions, IDLE_LIMIT_MS, openApiDoor, START_LIMIT_MS } from './api-door.ts';

const IDLE_MS = 300;

/** Answers each request with its pid and path; `/exit` ends it, `/hold` is never answered, the answer of `/begin` has no end. */
const SERVER = `
import { createServer } from 'node:http';
const closed = { all: 0, tcp: 0 };
const server = createServer({ keepAliveTimeout: 50 }, (incoming, outgoing) => {
  if (incoming.url === '/exit') process.exit(7);
  if (incoming.url === '/begin') return outgoing.write('begun');
  if (incoming.url !== '/hold') outgoing.end([process.pid, incoming.url, JSON.stringify(incoming.socket.source)].join(' '));
});
const tcp = new Set();
let taken = 0;
process.on('message', ({ connection, close }, socket) => {
  if (close === 'tcp') return tcp.forEach((one) => one.destroy());
  process.send({ taken: (taken += 1) });
  if (socket === undefined) return;
  if (connection.listener === 'tcp') tcp.add(socket);
  socket.once('close', () => {
    closed.all += 1;
    if (tcp.delete(socket)) closed.tcp += 1;
    process.send({ closed: closed.all, closedTcp: closed.tcp });
  });
  socket.source = connection;
  server.emit('connection', socket);
  socket.resume();
});
process.on('disconnect', () => process.exit());
setTimeout(() => process.send({ ready: true }), 50);
`;

interface Door {
  readonly door: ApiDoor;
  readonly stateDir: string;
  readonly problems: string[];
  readonly lines: string[];
  get(path: string): Promise<string>;
  hold(): Promise<Socket>;
  /** Like `hold`, with the beginning of an answer. */
  begin(): Promise<Socket>;
}

async function openDoor(change: Partial<ApiDoorOptions> = {}, depth = 0): Promise<Door> {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-api-door-'));
  const stateDir = join(dir, ...Array.from({ length: depth }, () => 'a long name of a folder'));
  mkdirSync(stateDir, { recursive: true });
  const script = join(dir, 'server.mjs');
  writeFileSync(script, SERVER);
  const [problems, lines]: [string[], string[]] = [[], []];
  const door = await openApiDoor({
    stateDir,
    command: () => ({ file: process.execPath, args: [script] }),
    env: process.env,
    onLine: (line) => lines.push(line),
    onProblem: (message) => problems.push(message),
    idleLimitMs: IDLE_MS,
    ...change,
  });
  onTestFinished(async () => {
    await door.close();
    rmSync(dir, { recursive: true, force: true });
  });
  // As a client whose working folder is the state folder: its path to the socket is short.
  const folder = openSync(stateDir, 'r');
  onTestFinished(() => closeSync(folder));
  const socketPath = `/proc/self/fd/${folder}/api.sock`;
  const get = async (path: string): Promise<string> =>
    await new Promise((resolve, reject) => {
      request({ socketPath, path, agent: false }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => (text += part));
        response.on('end', () => resolve(text));
      })
        .on('error', reject)
        .end();
    });
  const hold = async (path = '/hold'): Promise<Socket> => {
    const socket = connect(socketPath).on('error', () => undefined);
    await once(socket, 'connect');
    socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
    return socket;
  };
  const begin = async (): Promise<Socket> => {
    const socket = await hold('/begin');
    await once(socket, 'data');
    return socket;
  };
  return { door, stateDir, problems, lines, get, hold, begin };
}

function pidIn(answer: string): number {
  return Number(answer.split(' ')[0]);
}

test('only the owner may connect, and no process runs before the first connection', async () => {
  const { door, stateDir } = await openDoor();
  const { mode } = statSync(locateApiSocket(stateDir));
  expect((mode & 0o777).toString(8)).toBe('600');
  expect(door.pid()).toBeNull();
});

test('connections that arrive during the start are answered by one process', async () => {
  const { door, get } = await openDoor({ idleLimitMs: 60_000 });
  const answers = await Promise.all(['/a', '/b', '/c'].map(get));
  expect(answers.map((answer) => answer.split(' ')[1])).toEqual(['/a', '/b', '/c']);
  expect(new Set(answers.map(pidIn))).toEqual(new Set([door.pid()]));
});

test('the process ends after a time without a connection, and the next connection starts another one', async () => {
  const { door, get } = await openDoor();
  const first = pidIn(await get('/a'));
  await expect.poll(() => door.pid()).toBeNull();
  // The door forgets the process when it asks it to end.
  await expect.poll(() => existsSync(`/proc/${first}`), { timeout: 10_000 }).toBe(false);
  expect(pidIn(await get('/b'))).not.toBe(first);
});

test('an open connection keeps the process, and its end counts as a use', async () => {
  const { door, get, hold } = await openDoor();
  const held = await hold();
  const pid = pidIn(await get('/a'));
  const before = Date.now();
  await expect.poll(() => Date.now() - before).toBeGreaterThan(3 * IDLE_MS);
  expect(door.pid()).toBe(pid);
  expect(door.lastUsedMs()).toBeGreaterThan(before + 2 * IDLE_MS);
  held.destroy();
  await expect.poll(() => door.pid()).toBeNull();
  // A timer counts from the begin of its turn, and a busy machine may stop the process between the two.
  expect(door.lastUsedMs()).toBeLessThan(Date.now() - IDLE_MS / 2);
});

test('a process that is wanted runs without a connection, also after it was killed, and the stack counts as used', async () => {
  let isWanted = true;
  const { door } = await openDoor({ isWanted: () => isWanted, wantedEveryMs: 50, idleLimitMs: 100 });
  const first = await expectPid(door);
  const before = Date.now();
  await expect.poll(() => Date.now() - before).toBeGreaterThan(300);
  expect(door.pid()).toBe(first);
  expect(door.lastUsedMs()).toBeGreaterThan(before + 200);
  process.kill(first, 'SIGKILL');
  await expect.poll(() => door.pid() !== null && door.pid() !== first).toBe(true);
  isWanted = false;
  await expect.poll(() => door.pid()).toBeNull();
  expect(door.lastUsedMs()).toBeLessThan(Date.now() - 50);
});

async function expectPid(door: ApiDoor): Promise<number> {
  await expect.poll(() => door.pid()).not.toBeNull();
  return door.pid()!;
}

test('of 1,101 connections at once the last one is closed without an answer, and a later one is answered', async () => {
  const { problems, get, begin } = await openDoor({ idleLimitMs: 60_000 });
  const held: Socket[] = [];
  while (held.length < 1_100) held.push(...(await Promise.all(Array.from({ length: 100 }, begin))));
  await expect(get('/a')).rejects.toThrow(/socket hang up|ECONNRESET|EPIPE/);
  held[0]!.destroy();
  await expect.poll(async () => await get('/b').catch(() => 'none')).toContain('/b');
  expect(problems).toEqual([]);
  for (const socket of held) socket.destroy();
});

test('by default the process has 90 s to start, and ends after the time that the page names', () => {
  expect([IDLE_LIMIT_MS, START_LIMIT_MS]).toEqual([600_000, 90_000]);
  const page = readFileSync(join(findPackageRoot(), 'docs/reference/api-http.md'), 'utf8');
  expect(page).toContain(`It ends after ${IDLE_LIMIT_MS / 60_000} minutes without a connection.`);
});

test('a process that crashes is followed by another one at the next connection', async () => {
  const { door, lines, get, hold } = await openDoor({ idleLimitMs: 60_000 });
  const first = pidIn(await get('/a'));
  const held = await hold();
  await expect(get('/exit')).rejects.toThrow(/socket hang up|ECONNRESET/);
  await once(held, 'close');
  await expect.poll(() => door.pid()).toBeNull();
  expect(lines).toContain('ended: exit code 7');
  expect(pidIn(await get('/b'))).not.toBe(first);
});

test('connections that are on their way to a process that is killed end', async () => {
  const { get, hold } = await openDoor({ idleLimitMs: 60_000 });
  const pid = pidIn(await get('/a'));
  // A stopped process takes no connection, but Node reports that it did.
  process.kill(pid, 'SIGSTOP');
  const held = [await hold(), await hold()];
  const before = Date.now();
  await expect.poll(() => Date.now() - before).toBeGreaterThan(200);
  process.kill(pid, 'SIGKILL');
  await expect.poll(() => held.map(({ closed }) => closed)).toEqual([true, true]);
  expect(pidIn(await get('/b'))).not.toBe(pid);
});

test('a process that does not start closes its connections with the reason, and is not started again', async () => {
  const { door, problems, lines, get } = await openDoor({
    command: () => ({ file: process.execPath, args: ['-e', 'process.exit(3)'] }),
  });
  await expect(get('/a')).rejects.toThrow(/socket hang up|ECONNRESET/);
  await expect.poll(() => problems).toEqual(['a connection was closed: the API ended: exit code 3']);
  expect(door.pid()).toBeNull();
  expect(lines).toEqual(['ended: exit code 3']);
});

test('a process that is not ready in time closes its connections and ends', async () => {
  const { door, problems, get } = await openDoor({
    command: () => ({ file: process.execPath, args: ['-e', 'setInterval(() => undefined, 1000)'] }),
    startLimitMs: 200,
    idleLimitMs: 60_000,
  });
  await expect(get('/a')).rejects.toThrow(/socket hang up|ECONNRESET/);
  await expect.poll(() => problems).toEqual(['a connection was closed: the API did not start in time']);
  await expect.poll(() => door.pid()).toBeNull();
});

test('the socket is there again after it was removed', async () => {
  const { stateDir, get } = await openDoor();
  rmSync(locateApiSocket(stateDir));
  await expect.poll(() => statSync(locateApiSocket(stateDir), { throwIfNoEntry: false })).toBeDefined();
  expect(await get('/a')).toContain('/a');
});

test('a state folder with a path of more than 107 bytes has the socket, too', async () => {
  const { stateDir, get } = await openDoor({}, 5);
  const path = locateApiSocket(stateDir);
  expect(path.length).toBeGreaterThan(107);
  expect(await get('/a')).toContain('/a');
});

const TCP: TcpSource = {
  listener: 'tcp',
  tls: { cert: '/cert', key: '/key' },
  publicUrl: 'https://api.example',
  behindProxy: true,
};

/** Accepts connections over TCP for the door. @returns the port */
async function listenFor(door: ApiDoor, findSource: () => TcpSource | null = () => TCP): Promise<number> {
  const server = createServer({ pauseOnConnect: true }, (socket) => door.giveTcp(socket, findSource));
  onTestFinished(() => void server.close());
  server.listen({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** Sends a request, and returns all that arrives until the end of the connection. */
async function exchange(port: number, path: string): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port }).on('error', () => undefined);
  let answer = '';
  socket.setEncoding('utf8').on('data', (part: string) => (answer += part));
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
  await new Promise((resolve) => socket.once('close', resolve));
  return answer;
}

test('connections of both kinds are answered by one process, which knows their listener', async () => {
  const { door, get } = await openDoor({ idleLimitMs: 60_000 });
  const port = await listenFor(door);
  const [near, far] = await Promise.all([get('/a'), exchange(port, '/b')]);
  expect(near).toBe(`${door.pid()} /a {"listener":"unix"}`);
  expect(far).toContain(`${door.pid()} /b ${JSON.stringify(TCP)}`);
});

test('a connection whose listener is gone when the API is ready is closed, and not given to it', async () => {
  const { door, problems, get } = await openDoor();
  const port = await listenFor(door, () => null);
  expect(await exchange(port, '/a')).toBe('');
  expect(problems).toEqual(['a connection was closed: its listener is gone']);
  expect(await get('/b')).toContain('/b');
});

test('the end of a listener ends the connections over TCP, and no other', async () => {
  const { door, get, hold } = await openDoor();
  const port = await listenFor(door);
  const near = await hold();
  const far = exchange(port, '/hold');
  const begun = Date.now();
  await expect.poll(() => get('/a')).toContain('/a');
  await expect.poll(() => door.lastUsedMs()).toBeGreaterThanOrEqual(begun);
  door.endTcp();
  expect(await far).toBe('');
  expect(near.closed).toBe(false);
  near.destroy();
});

test('clients of the network cannot take the connections of the owner', async () => {
  const { door, get } = await openDoor({ mostConnections: 4, mostTcpConnections: 2 });
  const port = await listenFor(door);
  const held = [exchange(port, '/hold'), exchange(port, '/hold')];
  await expect.poll(() => get('/a')).toContain('/a');
  expect(await exchange(port, '/b')).toBe('');
  expect(await get('/c')).toContain('/c');
  door.endTcp();
  await Promise.all(held);
  await expect.poll(() => exchange(port, '/d')).toContain('/d');
});

test('all connections together have a limit, which the Unix socket reaches, too', async () => {
  const { door, get, hold } = await openDoor({ idleLimitMs: 60_000, mostConnections: 2, mostTcpConnections: 1 });
  const held = [await hold(), await hold()];
  await expect(get('/a')).rejects.toThrow(/socket hang up|ECONNRESET|EPIPE/);
  for (const socket of held) socket.destroy();
  await expect.poll(() => get('/b').catch(() => '')).toContain('/b');
  expect(door.pid()).not.toBeNull();
});
