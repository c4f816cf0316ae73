/** The limits of connections, with real sockets: a request in any form ends within them. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Hono } from 'hono';
import { type Connections, serveConnections } from './connections.ts';
import { streamTexts } from './event-stream.ts';
import { API_LIMITS, type ApiLimits } from './limits.ts';
import { toProblem, toProblemResponse } from './problems.ts';
import { readUpload } from './upload-body.ts';

const MIB = 1024 * 1024;

let dir: string;
let server: Server;
let connections: Connections;
let closed: number;
/** The bytes that the endless stream has read from its source. */
let readBytes: number;
/** The ends of uploads. */
let received: string[];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-connections-'));
  closed = 0;
  readBytes = 0;
  received = [];
});
afterEach(() => {
  connections.close();
  server.close();
  rmSync(dir, { recursive: true, force: true });
});

async function listen(change: Partial<ApiLimits> = {}): Promise<void> {
  const limits = { ...API_LIMITS, ...change };
  const app = new Hono();
  app.get('/', (context) => context.text('hello'));
  app.post('/', async (context) => context.text(`${(await context.req.text()).length} characters`));
  app.get('/endless', () => {
    const source = (async function* () {
      for (;;) {
        readBytes += MIB / 4;
        yield 'x'.repeat(MIB / 4);
      }
    })();
    return new Response(
      streamTexts(source, {
        stalledMs: limits.stalledMs,
        pieceBytes: limits.pieceBytes,
        heartbeat: null,
        onGone: () => undefined,
      }),
    );
  });
  app.put('/api/v1/blobs/:hash', async (context) => {
    let size = 0;
    try {
      for await (const part of readUpload(context.req.raw.body, limits.uploadPauseMs)) size += part.byteLength;
    } catch (error) {
      received.push((error as Error).message);
      return toProblemResponse((await toProblem(error))!);
    }
    received.push(`${size} bytes`);
    return context.text(`${size} bytes`);
  });
  connections = serveConnections({
    fetch: (request) => app.fetch(request),
    limits,
    onClosed: () => (closed += 1),
    log: () => undefined,
  });
  server = createServer({ pauseOnConnect: true }, (socket) => connections.accept(socket, { listener: 'unix' }));
  server.listen(join(dir, 's'));
  await once(server, 'listening');
}

function open(): Socket {
  return connect(join(dir, 's')).on('error', () => undefined);
}

function countAccepted(): Promise<number> {
  return new Promise((resolve) => server.getConnections((_error, count) => resolve(count)));
}

/** Sends the text, and returns all that arrives until the end of the connection. */
async function exchange(text: string, onWritten: () => void = () => undefined): Promise<string> {
  const socket = open();
  let answer = '';
  socket.setEncoding('utf8').on('data', (part: string) => (answer += part));
  await once(socket, 'connect');
  await expect.poll(countAccepted).toBeGreaterThan(0);
  socket.write(text);
  onWritten();
  await once(socket, 'close');
  return answer;
}

test('a request is answered, and the end of its connection is reported', async () => {
  await listen();
  expect(await exchange('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')).toMatch(
    /^HTTP\/1\.1 200 [\s\S]*hello$/,
  );
  await expect.poll(() => closed).toBe(1);
});

test('a request that has arrived while the process stood still is answered', async () => {
  await listen({ headersMs: 200, requestMs: 400 });
  // The bytes are in the kernel, and the limits of the request pass before this process can read them.
  const stand = (): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500);
  const text = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nabcde';
  expect(await exchange(text, stand)).toMatch(/^HTTP\/1\.1 200 [\s\S]*5 characters$/);
});

test('two requests of one connection are answered', async () => {
  await listen();
  const request = 'GET / HTTP/1.1\r\nHost: a\r\n';
  const answer = await exchange(`${request}\r\n${request}Connection: close\r\n\r\n`);
  expect(answer.match(/hello/g)).toHaveLength(2);
});

test('the address, the names and the values of headers have less than 16 KiB together', async () => {
  await listen();
  const askWith = (bytes: number): string => {
    const counted = '/HostaConnectioncloseX'.length;
    return `GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: ${'x'.repeat(bytes - counted)}\r\n\r\n`;
  };
  expect(await exchange(askWith(16 * 1024 - 1))).toContain('hello');
  expect(await exchange(askWith(16 * 1024))).toMatch(/^HTTP\/1\.1 431 /);
});

test('1,000 connections are open at once, and the next one is refused', async () => {
  await listen();
  const held: Socket[] = [];
  while (held.length < 1_000) {
    const next = Array.from({ length: 100 }, open);
    await Promise.all(next.map((socket) => once(socket, 'connect')));
    held.push(...next);
    // The queue of the socket is short.
    await expect.poll(countAccepted, { interval: 5 }).toBe(held.length);
  }
  const request = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';
  expect(await exchange(request)).toMatch(/^HTTP\/1\.1 503 /);
  held[0]!.destroy();
  await expect.poll(() => closed).toBe(2);
  expect(await exchange(request)).toContain('hello');
  for (const socket of held) socket.destroy();
});

test('headers of more than 16 KiB are refused', async () => {
  await listen();
  const answer = await exchange(`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(16 * 1024)}\r\n\r\n`);
  expect(answer).toMatch(/^HTTP\/1\.1 431 [\s\S]*application\/problem\+json[\s\S]*"code":"api\/too-large"/);
  expect(
    await exchange(`GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: ${'x'.repeat(15 * 1024)}\r\n\r\n`),
  ).toContain('hello');
});

test('headers of 10 MiB end their connection, and few of them are read', async () => {
  await listen();
  const socket = open();
  const ended = new Promise((resolve) => socket.once('close', resolve));
  let acceptedBytes = 0;
  for (let line = 0; line < 160 && !socket.destroyed; line += 1) {
    const text = `X-${line}: ${'x'.repeat(64 * 1024)}\r\n`;
    const isWritten = await new Promise((resolve) =>
      socket.write(line === 0 ? `GET / HTTP/1.1\r\nHost: a\r\n${text}` : text, (error) => resolve(!error)),
    );
    if (isWritten) acceptedBytes += text.length;
  }
  await ended;
  // The kernel holds some of them.
  expect(acceptedBytes).toBeLessThan(2 * MIB);
  await expect.poll(() => closed).toBe(1);
  expect(await exchange('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')).toContain('hello');
});

test('a request within a body is no request', async () => {
  await listen();
  const next = 'GET /endless HTTP/1.1\r\nHost: a\r\n\r\n';
  const answer = await exchange(
    `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${next.length}\r\nConnection: close\r\n\r\n${next}`,
  );
  expect(answer).toContain(`${next.length} characters`);
  expect(readBytes).toBe(0);
});

test.each([
  ['headers', 'GET / HTTP/1.1\r\nHost: a\r\n'],
  ['a second line of headers', 'GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n'],
  ['a body', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab'],
])('a request whose %s do not end is refused after its time', async (_what, text) => {
  await listen({ headersMs: 200, requestMs: 400 });
  const begun = Date.now();
  expect(await exchange(text)).toMatch(/^HTTP\/1\.1 408 [\s\S]*"code":"api\/too-slow"/);
  expect(Date.now() - begun).toBeLessThan(5_000);
});

test('the product waits 10 s for headers, and 30 s for a request', () => {
  expect(API_LIMITS).toMatchObject({ headersMs: 10_000, requestMs: 30_000, headerBytes: 16_384, connections: 1_000 });
});

test.each([
  ['no HTTP', 'hello\r\n\r\n'],
  ['no `Host`', 'GET / HTTP/1.1\r\n\r\n'],
  ['two lengths', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
  [
    'a length and pieces',
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  ],
  [
    'pieces and a length',
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n',
  ],
  ['two lengths in one header', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\na'],
  ['two equal lengths', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na'],
  ['a length with a sign', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na'],
  ['a length of 20 digits', `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${'9'.repeat(20)}\r\n\r\na`],
  ['pieces that are not last', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, x\r\n\r\n0\r\n\r\n'],
  ['an unknown coding', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n'],
  ['a blank before a colon', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n'],
  [
    'a piece whose size is no number',
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n',
  ],
  ['lines without a carriage return', 'GET / HTTP/1.1\nHost: a\nContent-Length: 0\n\n'],
  ['a zero byte in a header', 'GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n'],
  ['a folded header', 'GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\nno colon\r\n\r\n'],
  ['a `Host` that is no host', 'GET / HTTP/1.1\r\nHost: a b/\r\nConnection: close\r\n\r\n'],
])('a request with %s is refused', async (_what, text) => {
  await listen();
  expect(await exchange(text)).toMatch(/^HTTP\/1\.1 400 /);
});

test('a connection above the limit is refused, and a later one is accepted', async () => {
  await listen({ connections: 2 });
  const held = [open(), open()];
  await Promise.all(held.map((socket) => once(socket, 'connect')));
  await sleep(50);
  const request = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';
  expect(await exchange(request)).toMatch(/^HTTP\/1\.1 503 [\s\S]*"code":"api\/too-many-connections"/);
  for (const socket of held) socket.destroy();
  await expect.poll(() => closed).toBe(3);
  expect(await exchange(request)).toContain('hello');
});

test('a client that does not read an endless stream keeps at most 1 MiB here, and is disconnected', async () => {
  await listen({ stalledMs: 300 });
  const socket = open();
  socket.pause();
  socket.write('GET /endless HTTP/1.1\r\nHost: a\r\n\r\n');
  await expect.poll(() => closed, { timeout: 10_000 }).toBe(1);
  // The kernel's buffer of the connection has another part.
  expect(readBytes).toBeGreaterThan(0);
  expect(readBytes).toBeLessThanOrEqual(MIB);
  socket.destroy();
});

test('an answer that has begun ends without a problem in it when its client sends no HTTP', async () => {
  await listen();
  const socket = open();
  let received = '';
  let isSent = false;
  socket.setEncoding('latin1').on('data', (part: string) => {
    received = (received + part).slice(-MIB);
    if (isSent) return;
    isSent = true;
    socket.write('hello\r\n\r\n');
  });
  socket.write('GET /endless HTTP/1.1\r\nHost: a\r\n\r\n');
  await once(socket, 'close');
  expect(received).toContain('x');
  expect(received).not.toContain('HTTP/1.1 400');
  await expect.poll(() => closed).toBe(1);
});

test('a client that reads an endless stream is not disconnected', async () => {
  // Longer than a busy machine stops this process, which is the client too.
  const stalledMs = 3_000;
  await listen({ stalledMs });
  const socket = open();
  let received = 0;
  socket.on('data', (part: Buffer) => (received += part.byteLength));
  socket.write('GET /endless HTTP/1.1\r\nHost: a\r\n\r\n');
  const begun = Date.now();
  await expect.poll(() => Date.now() - begun).toBeGreaterThan(stalledMs + 1_000);
  await expect.poll(() => received, { timeout: 60_000 }).toBeGreaterThan(20 * MIB);
  expect(closed).toBe(0);
  socket.destroy();
});

describe('an upload', () => {
  const head = (bytes: number) => `PUT /api/v1/blobs/a HTTP/1.1\r\nHost: a\r\nContent-Length: ${bytes}\r\n\r\n`;

  /** Writes a byte each 100 ms, as a slow network does. */
  async function trickle(socket: Socket, bytes: number): Promise<void> {
    for (let count = 0; count < bytes; count += 1) {
      socket.write('x');
      await sleep(100);
    }
  }

  test('that makes progress may take longer than other requests, which keep their limit on the same connection', async () => {
    await listen({ headersMs: 200, requestMs: 400, uploadPauseMs: 2_000 });
    const socket = open();
    let answer = '';
    socket.setEncoding('utf8').on('data', (part: string) => (answer += part));
    socket.write(head(20));
    await trickle(socket, 20);
    await expect.poll(() => answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*20 bytes$/);
    const begun = Date.now();
    socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab');
    await once(socket, 'close');
    expect(answer).toMatch(/HTTP\/1\.1 408 [\s\S]*"code":"api\/too-slow"/);
    expect(Date.now() - begun).toBeLessThan(5_000);
  });

  test('that pauses is refused, and its connection ends', async () => {
    await listen({ uploadPauseMs: 300 });
    const begun = Date.now();
    expect(await exchange(`${head(10)}abc`)).toMatch(/^HTTP\/1\.1 408 [\s\S]*"code":"api\/too-slow"/);
    expect(Date.now() - begun).toBeLessThan(5_000);
    expect(received).toEqual(['no byte of the upload arrived for 0.3 s']);
  });

  test('that is cut ends in the service too', async () => {
    await listen();
    const socket = open();
    await once(socket, 'connect');
    await new Promise((resolve) => socket.write(`${head(10)}abc`, resolve));
    socket.destroy();
    await expect.poll(() => received).toEqual(['the connection ended before the upload']);
  });

  test('needs its own path: another one has the time of other requests', async () => {
    await listen({ headersMs: 200, requestMs: 400 });
    expect(await exchange('PUT /api/v1/runs HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab')).toMatch(
      / (?:404|408) /,
    );
  });
});

test('the product ends an upload that pauses for 30 s', () => {
  expect(API_LIMITS.uploadPauseMs).toBe(30_000);
});
