/** Connections over TCP, with real sockets: their headers, their limits and TLS. */
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Hono } from 'hono';
import type { ConnectionSource, TlsFiles } from '../client/embedded/api-messages.ts';
import { copyPair, type PairName, readCertificate } from '../test/rig/tls/pairs.ts';
import { type Connections, serveConnections } from './connections.ts';
import { API_LIMITS, type ApiLimits } from './limits.ts';
import { getClientAddress, getConnection } from './listener.ts';

const TCP: ConnectionSource = { listener: 'tcp', tls: null, publicUrl: null, behindProxy: false };

let dir: string;
let connections: Connections;
let servers: Server[];
let closed: string[];
let logged: string[];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-tcp-'));
  [servers, closed, logged] = [[], [], []];
});
afterEach(() => {
  connections.close();
  for (const server of servers) server.close();
  rmSync(dir, { recursive: true, force: true });
});

function serve(change: Partial<ApiLimits> = {}): void {
  const app = new Hono();
  // A connection of an earlier test may end later.
  const own = closed;
  app.get('/', (context) =>
    context.json({ ...getConnection(context), end: undefined, client: getClientAddress(context) }),
  );
  app.put('/api/v1/blobs/x', (context) => context.text('no token', 401));
  app.post('/', async (context) => context.text(`${(await context.req.text()).length} characters`));
  connections = serveConnections({
    fetch: (request, bindings) => app.fetch(request, bindings),
    limits: { ...API_LIMITS, ...change },
    onClosed: (listener) => own.push(listener),
    log: (line) => logged.push(line),
  });
}

/** Listens as the supervisor does. @returns the port */
async function listen(source: ConnectionSource, host = '127.0.0.1'): Promise<number> {
  const server = createServer({ pauseOnConnect: true }, (socket) => connections.accept(socket, source));
  servers.push(server);
  server.listen({ host, port: 0 });
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

function readAll(socket: Socket): Promise<string> {
  let answer = '';
  socket.setEncoding('utf8').on('data', (part: string) => (answer += part));
  socket.on('error', () => undefined);
  return new Promise((resolve) => socket.once('close', () => resolve(answer)));
}

async function exchange(port: number, text: string, host = '127.0.0.1'): Promise<string> {
  const socket = connect({ host, port });
  const answer = readAll(socket);
  socket.write(text);
  return await answer;
}

async function exchangeTls(port: number, text: string, options: ConnectionOptions = {}): Promise<string> {
  const socket = openTls(port, options);
  const answer = readAll(socket);
  socket.write(text);
  return await answer;
}

function openTls(port: number, options: ConnectionOptions = {}, trusted: PairName = 'first'): TLSSocket {
  return connectTls({ host: '127.0.0.1', port, ca: readCertificate(trusted), ...options });
}

function writeRequest(host: string, lines: readonly string[] = [], line = 'GET / HTTP/1.1'): string {
  return `${[line, `Host: ${host}`, 'Connection: close', ...lines].join('\r\n')}\r\n\r\n`;
}

const FILES = (): TlsFiles => copyPair('first', dir);

test('a request to the own address is answered, and knows its client', async () => {
  serve();
  const port = await listen(TCP);
  for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, `LOCALHOST:${port}`]) {
    const answer = await exchange(port, writeRequest(host, ['X-Forwarded-For: 192.0.2.7']));
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(answer).toContain('{"listener":"tcp","address":"127.0.0.1","isFromProxy":false,"client":"127.0.0.1"}');
  }
  await expect.poll(() => closed).toEqual(['tcp', 'tcp', 'tcp']);
});

test('an address of version 6 is a host in brackets', async () => {
  serve();
  const port = await listen(TCP, '::1');
  expect(await exchange(port, writeRequest(`[::1]:${port}`), '::1')).toContain('"address":"::1"');
  expect(await exchange(port, writeRequest(`localhost:${port}`), '::1')).toMatch(/^HTTP\/1\.1 200 /);
  expect(await exchange(port, writeRequest(`::1:${port}`), '::1')).toMatch(/^HTTP\/1\.1 403 /);
});

test('a listener of all addresses is reached under the address of the connection only', async () => {
  serve();
  const port = await listen(TCP, '::');
  expect(await exchange(port, writeRequest(`127.0.0.1:${port}`))).toContain('"address":"127.0.0.1"');
  expect(await exchange(port, writeRequest(`0.0.0.0:${port}`))).toMatch(/^HTTP\/1\.1 403 /);
});

test('`--public-url` names a further host, and the origin of its pages', async () => {
  serve();
  const port = await listen({ ...TCP, publicUrl: 'https://api.example', behindProxy: true });
  for (const host of ['api.example', 'api.example:443', 'API.example', `127.0.0.1:${port}`]) {
    const lines = ['Origin: https://api.example', 'X-Forwarded-For: 198.51.100.1, 192.0.2.7'];
    expect(await exchange(port, writeRequest(host, lines))).toContain('"client":"192.0.2.7"');
  }
  for (const host of ['api.example:80', 'www.api.example', 'api.example.'])
    expect(await exchange(port, writeRequest(host))).toMatch(/^HTTP\/1\.1 403 /);
});

test.each([
  ['a name that was made to resolve here', (port: number) => writeRequest(`evil.example:${port}`)],
  ['another port', () => writeRequest('127.0.0.1:1')],
  ['no port', () => writeRequest('127.0.0.1')],
  ['two hosts', (port: number) => writeRequest(`127.0.0.1:${port}`, [`Host: 127.0.0.1:${port}`])],
  ['a URL as its target', (port: number) => writeRequest(`127.0.0.1:${port}`, [], 'GET http://x/ HTTP/1.1')],
  ['a foreign origin', (port: number) => writeRequest(`127.0.0.1:${port}`, ['Origin: https://evil.example'])],
  ['the origin of a frame', (port: number) => writeRequest(`127.0.0.1:${port}`, ['Origin: null'])],
  ['another port as its origin', (port: number) => writeRequest(`127.0.0.1:${port}`, ['Origin: http://127.0.0.1:1'])],
  ['another site', (port: number) => writeRequest(`127.0.0.1:${port}`, ['Sec-Fetch-Site: cross-site'])],
  ['the same site', (port: number) => writeRequest(`127.0.0.1:${port}`, ['Sec-Fetch-Site: same-site'])],
  [
    'two sites',
    (port: number) => writeRequest(`127.0.0.1:${port}`, ['Sec-Fetch-Site: none', 'Sec-Fetch-Site: cross-site']),
  ],
  ['a question about CORS', (port: number) => writeRequest(`127.0.0.1:${port}`, [], 'OPTIONS / HTTP/1.1')],
])('a request with %s is refused, and its connection ends', async (_what, write) => {
  serve();
  const port = await listen(TCP);
  const answer = await exchange(port, write(port).replace('Connection: close', 'Connection: keep-alive'));
  expect(answer).toMatch(/^HTTP\/1\.1 403 [\s\S]*"code":"api\/foreign-request"/);
  expect(answer).toMatch(/\r\nconnection: close\r\n/i);
  expect(answer).not.toMatch(/access-control/i);
});

test('a write needs no origin, and one of the own pages is accepted', async () => {
  serve();
  const port = await listen(TCP);
  const lines = ['Content-Length: 2', `Origin: http://127.0.0.1:${port}`, 'Sec-Fetch-Site: same-origin'];
  for (const own of [lines, lines.slice(0, 1)])
    expect(await exchange(port, `${writeRequest(`127.0.0.1:${port}`, own, 'POST / HTTP/1.1')}ab`)).toContain(
      '2 characters',
    );
});

test('the Unix socket has no such rules', async () => {
  serve();
  const port = await listen({ listener: 'unix' });
  expect(await exchange(port, writeRequest('any', ['Origin: https://evil.example']))).toContain('"listener":"unix"');
});

test.each([
  ['200', (port: number) => writeRequest(`127.0.0.1:${port}`)],
  ['403', () => writeRequest('evil.example')],
  ['404', (port: number) => writeRequest(`127.0.0.1:${port}`, [], 'GET /x HTTP/1.1')],
  ['400', () => 'hello\r\n\r\n'],
])('an answer %s has the headers for browsers', async (status, write) => {
  serve();
  const port = await listen(TCP);
  const answer = (await exchange(port, write(port))).toLowerCase();
  expect(answer).toMatch(new RegExp(`^http/1\\.1 ${status} `));
  expect(answer).toContain("content-security-policy: default-src 'none'; frame-ancestors 'none'");
  for (const line of ['cache-control: no-store', 'referrer-policy: no-referrer', 'x-content-type-options: nosniff'])
    expect(answer).toContain(line);
  expect(answer).not.toContain('strict-transport-security');
});

test('clients of the network cannot take the connections of the owner', async () => {
  serve({ connections: 4, tcpConnections: 2 });
  const [network, own] = [await listen(TCP), await listen({ listener: 'unix' })];
  const held = [connect(network), connect(network)];
  await Promise.all(held.map((socket) => once(socket, 'connect')));
  const refused = await exchange(network, writeRequest(`127.0.0.1:${network}`));
  expect(refused).toMatch(/^HTTP\/1\.1 503 [\s\S]*"code":"api\/too-many-connections"/);
  expect(refused).toContain('2 open connections over TCP');
  expect(await exchange(own, writeRequest('any'))).toMatch(/^HTTP\/1\.1 200 /);
  for (const socket of held) socket.destroy();
});

test('the product has 1,000 connections, 900 of them over TCP, and 10 s for a handshake', () => {
  expect(API_LIMITS).toMatchObject({ connections: 1_000, tcpConnections: 900, handshakeMs: 10_000 });
});

test('only the connections over TCP end when their listener changes', async () => {
  serve();
  const [network, own] = [await listen(TCP), await listen({ listener: 'unix' })];
  const [far, near] = [connect(network), connect(own)];
  await Promise.all([once(far, 'connect'), once(near, 'connect')]);
  const answer = readAll(far);
  far.write(writeRequest(`127.0.0.1:${network}`).replace('Connection: close\r\n', ''));
  await once(far, 'data');
  const begun = Date.now();
  connections.closeTcp();
  expect(await answer).toMatch(/^HTTP\/1\.1 200 /);
  // An idle connection ends after 5 s anyway.
  expect(Date.now() - begun).toBeLessThan(3_000);
  const rest = readAll(near);
  near.write(writeRequest('any'));
  expect(await rest).toMatch(/^HTTP\/1\.1 200 /);
});

test.each([
  ['that sends nothing', '', 'HTTP/1.1 408'],
  ['whose headers do not end', 'GET / HTTP/1.1\r\nHost: a\r\n', 'HTTP/1.1 408'],
])('a connection %s ends after its time', async (_what, text, status) => {
  serve({ headersMs: 200 });
  for (const tls of [null, FILES()]) {
    const port = await listen({ ...TCP, tls });
    const answer = await (tls === null ? exchange : exchangeTls)(port, text);
    expect(answer).toContain(status);
  }
});

test('a refused upload that continues ends after the time of any request', async () => {
  serve({ requestMs: 400, headersMs: 200 });
  const port = await listen(TCP);
  const socket = connect(port);
  const answer = readAll(socket);
  const line = 'PUT /api/v1/blobs/x HTTP/1.1';
  socket.write(writeRequest(`127.0.0.1:${port}`, ['Content-Length: 1000000'], line).replace('close', 'keep-alive'));
  const more = setInterval(() => socket.write('x'), 50);
  const begun = Date.now();
  expect(await answer).toMatch(/^HTTP\/1\.1 401 /);
  clearInterval(more);
  expect(Date.now() - begun).toBeLessThan(4_000);
});

test('with TLS a request is answered, and browsers learn to use TLS only', async () => {
  serve();
  const port = await listen({ ...TCP, tls: FILES() });
  const answer = await exchangeTls(port, writeRequest(`127.0.0.1:${port}`, [`Origin: https://127.0.0.1:${port}`]));
  expect(answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*"listener":"tcp","address":"127\.0\.0\.1"/);
  expect(answer.toLowerCase()).toContain('strict-transport-security: max-age=31536000');
  expect(await exchangeTls(port, writeRequest('127.0.0.1:443'))).toMatch(/^HTTP\/1\.1 403 /);
  const plain = [`Origin: http://127.0.0.1:${port}`];
  expect(await exchangeTls(port, writeRequest(`127.0.0.1:${port}`, plain))).toMatch(/^HTTP\/1\.1 403 /);
  await expect.poll(() => closed).toHaveLength(3);
});

test.each<[string, ConnectionOptions, string]>([
  ['TLS 1.2', { maxVersion: 'TLSv1.2' }, 'TLSv1.2'],
  ['TLS 1.3', {}, 'TLSv1.3'],
])('a client of %s is served', async (_what, options, version) => {
  serve();
  const port = await listen({ ...TCP, tls: FILES() });
  const socket = openTls(port, { ...options, ALPNProtocols: ['h2', 'http/1.1'] });
  await once(socket, 'secureConnect');
  expect([socket.getProtocol(), socket.alpnProtocol]).toEqual([version, 'http/1.1']);
  socket.destroy();
});

test.each<[string, ConnectionOptions]>([
  ['TLS 1.1', { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL@SECLEVEL=0' }],
  ['HTTP/2 only', { ALPNProtocols: ['h2'] }],
])('a client of %s is refused', async (_what, options) => {
  serve();
  const port = await listen({ ...TCP, tls: FILES() });
  const socket = openTls(port, options);
  const [error] = (await once(
    socket.on('secureConnect', () => socket.destroy(new Error('served'))),
    'error',
  )) as [Error];
  expect(error.message).toMatch(/alert|protocol version|handshake/i);
});

test('a handshake that does not end within its time ends the connection', async () => {
  serve({ handshakeMs: 200 });
  const port = await listen({ ...TCP, tls: FILES() });
  const begun = Date.now();
  // The beginning of a record of a handshake, whose rest never arrives.
  const socket = connect(port);
  const answer = readAll(socket);
  socket.write(Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00]));
  expect(await answer).toBe('');
  expect(Date.now() - begun).toBeGreaterThanOrEqual(190);
  expect(Date.now() - begun).toBeLessThan(5_000);
  await expect.poll(() => closed).toEqual(['tcp']);
});

test('plain HTTP to a port of TLS is never answered, and TLS to a plain port fails', async () => {
  serve();
  const [secure, plain] = [await listen({ ...TCP, tls: FILES() }), await listen(TCP)];
  expect(await exchange(secure, writeRequest(`127.0.0.1:${secure}`))).not.toContain('HTTP/1.1 200');
  const socket = openTls(plain);
  const [error] = (await once(socket, 'error')) as [Error];
  expect(error.message).toMatch(/wrong version number|packet length|socket/i);
  await expect.poll(() => closed).toHaveLength(2);
  expect(await exchangeTls(secure, writeRequest(`127.0.0.1:${secure}`))).toContain('HTTP/1.1 200');
});

test('connections above the limit end before their handshake', async () => {
  serve({ tcpConnections: 1 });
  const port = await listen({ ...TCP, tls: FILES() });
  const held = connect(port);
  await once(held, 'connect');
  expect(await exchange(port, 'x')).toBe('');
  held.destroy();
  await expect.poll(() => closed).toHaveLength(2);
  expect(await exchangeTls(port, writeRequest(`127.0.0.1:${port}`))).toContain('HTTP/1.1 200');
});

test('new connections use a renewed certificate, and earlier ones continue', async () => {
  serve();
  const files = FILES();
  const port = await listen({ ...TCP, tls: files });
  const early = openTls(port);
  await once(early, 'secureConnect');
  copyPair('second', dir);
  const late = openTls(port, {}, 'second');
  await once(late, 'secureConnect');
  late.destroy();
  const answer = readAll(early);
  early.write(writeRequest(`127.0.0.1:${port}`));
  expect(await answer).toContain('HTTP/1.1 200');
  expect(logged).toEqual([]);
});

test('a renewed certificate that cannot be used changes nothing, and its reason is in the log once', async () => {
  serve();
  const files = FILES();
  const port = await listen({ ...TCP, tls: files });
  expect(await exchangeTls(port, writeRequest(`127.0.0.1:${port}`))).toContain('HTTP/1.1 200');
  writeFileSync(files.cert, 'half of a certificate');
  for (let tries = 0; tries < 2; tries += 1)
    expect(await exchangeTls(port, writeRequest(`127.0.0.1:${port}`))).toContain('HTTP/1.1 200');
  expect(logged).toEqual([expect.stringContaining(`${files.cert} and ${files.key} cannot be used: `)]);
  rmSync(files.key);
  expect(await exchangeTls(port, writeRequest(`127.0.0.1:${port}`))).toContain('HTTP/1.1 200');
});

test('without a certificate no connection is served, and another pair is never used instead', async () => {
  serve();
  const files = FILES();
  const good = await listen({ ...TCP, tls: files });
  expect(await exchangeTls(good, writeRequest(`127.0.0.1:${good}`))).toContain('HTTP/1.1 200');
  const other = { cert: join(dir, 'other.pem'), key: files.key };
  const port = await listen({ ...TCP, tls: other });
  expect(await exchangeTls(port, writeRequest(`127.0.0.1:${port}`))).toBe('');
  copyPair('second', dir);
  copyFileSync(files.cert, other.cert);
  copyPair('first', dir);
  // The certificate is of another key.
  expect(await exchangeTls(port, writeRequest(`127.0.0.1:${port}`))).toBe('');
  expect(logged).toEqual([expect.stringContaining('other.pem'), expect.stringContaining('key values mismatch')]);
});
