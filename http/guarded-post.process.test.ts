/** Against receivers on this machine. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { LOCALHOST_CERTIFICATE, LOCALHOST_KEY } from '../test/rig/servers/localhost-certificate.ts';
import { findClosedTarget, type GuardedPost, POST_LIMITS, type PostGuard, sendGuarded } from './guarded-post.ts';

interface Seen {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

let plain: Server;
let tls: Server;
let seen: Seen[];
/** Paths and the location that they redirect to, or their status. */
let answers: Readonly<Record<string, { readonly status: number; readonly location?: string }>>;

const portOf = (server: Server): number => (server.address() as AddressInfo).port;
const plainUrl = (path: string, host = 'receiver.example'): string => `http://${host}:${portOf(plain)}${path}`;
const tlsUrl = (path: string, host = 'localhost'): string => `https://${host}:${portOf(tls)}${path}`;

function answer(request: IncomingMessage, response: ServerResponse): void {
  const parts: Buffer[] = [];
  request.on('data', (part: Buffer) => parts.push(part));
  request.on('end', () => {
    const path = request.url ?? '';
    seen.push({ path, headers: request.headers, body: Buffer.concat(parts).toString() });
    if (path === '/silent') return;
    if (path === '/endless') {
      response.writeHead(200);
      const writing = setInterval(() => response.write('x'.repeat(65_536)), 1);
      response.on('close', () => clearInterval(writing));
      return;
    }
    if (path === '/large-headers') {
      response.writeHead(200, { 'x-large': 'x'.repeat(POST_LIMITS.headerBytes) }).end();
      return;
    }
    const { status, location } = answers[path] ?? { status: 204 };
    response.writeHead(status, location === undefined ? {} : { location }).end();
  });
}

beforeAll(async () => {
  plain = createServer(answer);
  tls = createTlsServer({ key: LOCALHOST_KEY, cert: LOCALHOST_CERTIFICATE }, answer);
  for (const server of [plain, tls])
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
});
afterAll(() => {
  for (const server of [plain, tls]) {
    server.closeAllConnections();
    server.close();
  }
});
beforeEach(() => {
  seen = [];
  answers = {};
});

const RESOLVE = (): Promise<{ address: string; family: number }[]> =>
  Promise.resolve([{ address: '127.0.0.1', family: 4 }]);
/** Every host is opened, and each name is this machine. */
const OPENED: PostGuard = { isOpened: () => true, resolve: RESOLVE, ca: LOCALHOST_CERTIFICATE };
/** No host is opened, and the loopback counts as an address of the internet. */
const OUTSIDE: PostGuard = {
  isOpened: () => false,
  isClosed: (address) => address !== '127.0.0.1',
  resolve: RESOLVE,
  ca: LOCALHOST_CERTIFICATE,
};

const makePost = (url: string): GuardedPost => ({
  url,
  headers: { 'content-type': 'application/json', 'webhook-id': 'n1' },
  privateHeaders: { authorization: 'Bearer token' },
  body: '{"a":"ü"}',
});

test('a receiver gets the body and the headers, and its status is the result', async () => {
  answers = { '/hook': { status: 202 } };
  expect(await sendGuarded(makePost(tlsUrl('/hook')), OUTSIDE)).toEqual({ kind: 'answered', status: 202 });
  const [{ path, headers, body }] = seen as [Seen];
  expect([path, body]).toEqual(['/hook', '{"a":"ü"}']);
  expect(headers).toMatchObject({
    'content-type': 'application/json',
    'content-length': '10',
    'webhook-id': 'n1',
    authorization: 'Bearer token',
  });
});

test.each([
  '127.0.0.1',
  '127.1',
  '0x7f000001',
  '2130706433',
  '[::1]',
  '[::ffff:127.0.0.1]',
  '169.254.169.254',
  '10.0.0.1',
  '[fd00::1]',
  '[64:ff9b::a00:1]',
])('a closed address is refused before a connection, in every form: %s', async (host) => {
  const result = await sendGuarded(makePost(tlsUrl('/', host)), { isOpened: () => false, timeMs: 5_000 });
  expect(result).toMatchObject({ kind: 'failed', code: 'notify/closed-address' });
  expect(seen).toEqual([]);
});

test('a name with a closed address among others is refused', async () => {
  const resolve: PostGuard['resolve'] = () =>
    Promise.resolve([
      { address: '1.1.1.1', family: 4 },
      { address: '127.0.0.1', family: 4 },
    ]);
  const result = await sendGuarded(makePost(tlsUrl('/', 'inside.example')), { isOpened: () => false, resolve });
  expect(result).toMatchObject({ code: 'notify/closed-address' });
  expect(result).toHaveProperty('problem', expect.stringContaining('inside.example'));
});

test('the address of the socket is checked too, before anything is sent', async () => {
  let checks = 0;
  const guard: PostGuard = { ...OUTSIDE, isClosed: () => (checks += 1) > 1 };
  for (const url of [tlsUrl('/'), tlsUrl('/', '127.0.0.1')]) {
    checks = 0;
    expect(await sendGuarded(makePost(url), guard)).toMatchObject({ code: 'notify/closed-address' });
    expect(checks).toBe(2);
  }
  expect(seen).toEqual([]);
});

test('a URL without TLS is refused, unless its host is opened', async () => {
  expect(await sendGuarded(makePost(plainUrl('/')), OUTSIDE)).toMatchObject({ code: 'notify/closed-address' });
  expect(seen).toEqual([]);
  const asked: unknown[] = [];
  const isOpened = (host: string, port: number): boolean => asked.push([host, port]) > 0;
  expect(await sendGuarded(makePost(plainUrl('/', 'Receiver.Example.')), { ...OPENED, isOpened })).toMatchObject({
    kind: 'answered',
  });
  expect(asked).toEqual([['receiver.example', portOf(plain)]]);
});

test('a redirect to a closed address is refused', async () => {
  answers = {
    '/number': { status: 307, location: 'https://169.254.169.254/latest' },
    '/six': { status: 308, location: 'https://[::1]/' },
    '/plain': { status: 307, location: plainUrl('/inside') },
  };
  for (const path of Object.keys(answers))
    expect(await sendGuarded(makePost(tlsUrl(path)), OUTSIDE)).toMatchObject({ code: 'notify/closed-address' });
  expect(seen.map(({ path }) => path)).toEqual(['/number', '/six', '/plain']);
});

test('a redirect keeps the POST, and another origin gets no private header', async () => {
  answers = {
    '/first': { status: 307, location: '/second' },
    '/second': { status: 308, location: plainUrl('/third') },
  };
  expect(await sendGuarded(makePost(tlsUrl('/first')), OPENED)).toEqual({ kind: 'answered', status: 204 });
  expect(seen.map(({ path, body, headers }) => [path, body, headers.authorization, headers['webhook-id']])).toEqual([
    ['/first', '{"a":"ü"}', 'Bearer token', 'n1'],
    ['/second', '{"a":"ü"}', 'Bearer token', 'n1'],
    ['/third', '{"a":"ü"}', undefined, 'n1'],
  ]);
});

test('redirects are bounded, and other ones are refused', async () => {
  const hop = (at: number) => ({ status: 307, location: `/hop${at + 1}` });
  answers = Object.fromEntries(Array.from({ length: POST_LIMITS.redirects + 1 }, (_, at) => [`/hop${at}`, hop(at)]));
  expect(await sendGuarded(makePost(tlsUrl('/hop1')), OPENED)).toEqual({ kind: 'answered', status: 204 });
  expect(await sendGuarded(makePost(tlsUrl('/hop0')), OPENED)).toMatchObject({
    code: 'notify/bad-redirect',
    problem: 'more than 3 redirects',
  });
  answers = {
    '/get': { status: 302, location: '/x' },
    '/nowhere': { status: 307 },
    '/file': { status: 307, location: 'file:///etc/passwd' },
    '/login': { status: 307, location: 'https://a:b@localhost/' },
  };
  seen = [];
  for (const path of Object.keys(answers))
    expect(await sendGuarded(makePost(tlsUrl(path)), OPENED), path).toMatchObject({ code: 'notify/bad-redirect' });
  expect(seen).toHaveLength(4);
});

test('a receiver that does not answer in time is left', async () => {
  const result = await sendGuarded(makePost(tlsUrl('/silent')), { ...OUTSIDE, timeMs: 200 });
  expect(result).toEqual({ kind: 'failed', code: 'notify/no-answer', problem: 'no answer within 0.2 s' });
  const stuck: PostGuard = { ...OUTSIDE, timeMs: 100, resolve: () => new Promise(() => undefined) };
  expect(await sendGuarded(makePost(tlsUrl('/')), stuck)).toMatchObject({ problem: 'no answer within 0.1 s' });
});

test('the body of an answer is not read, and large headers are refused', async () => {
  expect(await sendGuarded(makePost(tlsUrl('/endless')), OUTSIDE)).toEqual({ kind: 'answered', status: 200 });
  expect(await sendGuarded(makePost(tlsUrl('/large-headers')), OUTSIDE)).toMatchObject({ code: 'notify/no-answer' });
});

test('a header with a line break is sent nowhere', async () => {
  const post = { ...makePost(tlsUrl('/')), privateHeaders: { authorization: 'Bearer a\r\nx-injected: 1' } };
  expect(await sendGuarded(post, OUTSIDE)).toMatchObject({ kind: 'failed', code: 'notify/no-answer' });
  expect(seen).toEqual([]);
});

test('a failure does not contain the URL of the receiver, which may be a secret', async () => {
  const url = 'https://user:word@hooks.example/services/SECRET';
  for (const bad of [url, 'https://SECRET value', 'SECRET', 'ftp://hooks.example/SECRET'])
    expect(JSON.stringify(await sendGuarded(makePost(bad), OUTSIDE))).not.toContain('SECRET');
});

test.each([
  ['http://receiver.example/', 'receiver.example has no TLS, and its host is not opened'],
  ['https://10.1.2.3/', '10.1.2.3 is 10.1.2.3, an address of this machine or of a private network'],
  ['https://inside.example/', 'inside.example is 10.0.0.1, an address of this machine or of a private network'],
  ['https://receiver.example/', null],
  ['https://absent.example/', null],
  ['https://slow.example/', null],
])('a receiver that is looked up before a message exists: %s', async (url, why) => {
  const addresses: Readonly<Record<string, string>> = { 'inside.example': '10.0.0.1', 'receiver.example': '127.0.0.1' };
  const resolve = async (host: string) => {
    if (host === 'slow.example') return await new Promise<never>(() => undefined);
    return addresses[host] === undefined ? [] : [{ address: addresses[host], family: 4 }];
  };
  expect(await findClosedTarget(url, { ...OUTSIDE, resolve, timeMs: 20 })).toBe(why);
  expect(await findClosedTarget(url, { ...OPENED, resolve, timeMs: 20 })).toBeNull();
  expect(seen).toEqual([]);
});
