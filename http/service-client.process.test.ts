/** The connection to a service: its errors, its token, its certificate. */
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import type { ServiceSettings } from '../domain/access/service-settings.ts';
import { LOCALHOST_CERTIFICATE, LOCALHOST_KEY } from '../test/rig/servers/localhost-certificate.ts';
import { ServiceClient } from './service-client.ts';

const TOKEN = `voidbox_${'s'.repeat(43)}`;
const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

interface TestService {
  readonly requests: IncomingMessage[];
  connect(change?: Partial<ServiceSettings>): ServiceClient;
}

async function serve(answer: RequestListener, tls: { key: string; cert: string } | null = null): Promise<TestService> {
  const requests: IncomingMessage[] = [];
  const listener: RequestListener = (request, response) => {
    requests.push(request);
    answer(request, response);
  };
  const server = tls === null ? createServer(listener) : createTlsServer(tls, listener);
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  ends.push(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  return {
    requests,
    connect(change = {}) {
      const place = { kind: 'tcp', isTls: tls !== null, host: 'localhost', port } as const;
      const client = new ServiceClient({ name: `https://localhost:${port}`, place, token: TOKEN, ca: null, ...change });
      ends.push(() => client.close());
      return client;
    },
  };
}

function failureOf(work: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  return work.then(
    () => {
      throw new Error('it succeeded');
    },
    (error: unknown) => error as Error & Record<string, unknown>,
  );
}

const VERSION = { path: ['version'] };

test('a token is in a header only', async () => {
  const { requests, connect } = await serve((_request, response) => response.end('{}'));
  await connect().readJson({ path: ['runs', 'a/b ü'], query: { name: 'x y', none: undefined } });
  expect(requests[0]!.headers.authorization).toBe(`Bearer ${TOKEN}`);
  expect(requests[0]!.url).toBe('/api/v1/runs/a%2Fb%20%C3%BC?name=x%20y');
});

test('a problem has its code, its text, its remedy and its fault', async () => {
  const problem = { status: 403, code: 'cli/mount-refused', detail: 'no \u001b[31mmount', remedy: 'Allow it.' };
  const { connect } = await serve((request, response) => {
    response.writeHead(403, { 'content-type': 'application/problem+json' });
    response.end(JSON.stringify({ ...problem, ...(request.url!.includes('fault') ? { fault: 'environment' } : {}) }));
  });
  const client = connect();
  const usage = await failureOf(client.readJson(VERSION));
  expect(usage).toMatchObject({ code: 'cli/mount-refused', remedy: 'Allow it.', fault: 'usage' });
  expect(usage.message).not.toContain('\u001b');
  expect(await failureOf(client.readJson({ path: ['fault'] }))).toMatchObject({ fault: 'environment' });
});

test('a missing token is an error of the environment, and its remedy names the variable', async () => {
  const { connect } = await serve((_request, response) => {
    response.writeHead(401, { 'content-type': 'application/problem+json' });
    response.end(JSON.stringify({ status: 401, code: 'api/no-token', detail: 'x', remedy: null, fault: 'usage' }));
  });
  const failure = await failureOf(connect().readJson(VERSION));
  expect(failure).toMatchObject({ code: 'api/no-token', fault: 'environment' });
  expect(failure['remedy']).toContain('VOIDBOX_TOKEN');
});

test.each([
  ['a page of a proxy', 502, 'text/html', '<h1>Bad gateway</h1>'],
  ['a redirect', 302, 'text/html', ''],
  ['a problem of another program', 500, 'application/problem+json', '{"title":"x"}'],
  ['a page with the status 200', 200, 'text/html', '<h1>Hello</h1>'],
])('%s is no answer of Voidbox', async (_what, status, mediaType, body) => {
  const { requests, connect } = await serve((_request, response) => {
    response.writeHead(status, { 'content-type': mediaType, location: 'https://example.org/' });
    response.end(body);
  });
  const failure = await failureOf(connect().readJson(VERSION));
  expect(failure).toMatchObject({ code: 'cli/no-service', fault: 'environment' });
  expect(requests).toHaveLength(1);
});

test('a read is sent again after a connection that broke, and a change is not', async () => {
  let broken = 2;
  const { requests, connect } = await serve((request, response) => {
    if (request.method === 'POST' || broken-- > 0) return void request.socket.destroy();
    response.end('{"version":"1"}');
  });
  const client = connect();
  expect(await client.readJson(VERSION)).toEqual({ version: '1' });
  expect(requests).toHaveLength(3);
  expect(await failureOf(client.change({ path: ['runs'], body: { json: {} } }))).toMatchObject({ kind: 'broken' });
  expect(requests).toHaveLength(4);
});

test('an answer that ends too early is read again', async () => {
  let cut = 1;
  const { connect } = await serve((request, response) => {
    response.writeHead(200, { 'content-length': '16' });
    response.write('{"versi');
    if (cut-- > 0) return void setImmediate(() => request.socket.destroy());
    response.end('on":"12"}');
  });
  expect(await connect().readJson(VERSION)).toEqual({ version: '12' });
});

test('a service with too many requests is asked again after its time', async () => {
  const times: number[] = [];
  const { connect } = await serve((_request, response) => {
    times.push(performance.now());
    if (times.length > 1) return void response.end('{}');
    response.writeHead(429, { 'content-type': 'application/problem+json', 'retry-after': '1' });
    response.end(JSON.stringify({ code: 'api/too-many-requests', detail: 'slow down', remedy: null }));
  });
  await connect().readJson(VERSION);
  expect(times[1]! - times[0]!).toBeGreaterThan(990);
});

test('a service that does not answer in time is named, without the token', async () => {
  const { connect } = await serve(() => undefined);
  const failure = await failureOf(connect().send({ ...VERSION, answerMs: 50 }));
  expect(failure.message).toMatch(/^cannot reach https:\/\/localhost:\d+: it does not answer within 0.05 s$/);
  expect(JSON.stringify({ ...failure, stack: failure.stack })).not.toContain('voidbox_s');
});

test('a source of bytes that fails says why', async () => {
  const { connect } = await serve((request, response) => request.resume().on('end', () => response.end()));
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('ab');
    throw new Error('the file has changed');
  }
  const body = { bytes: broken(), sizeBytes: 4 };
  expect((await failureOf(connect().send({ method: 'PUT', path: ['blobs', 'x'], body }))).message).toBe(
    'the file has changed',
  );
});

test('a certificate is accepted if VOIDBOX_SERVER_CA has it, and only then', async () => {
  const tls = { key: LOCALHOST_KEY, cert: LOCALHOST_CERTIFICATE };
  const { requests, connect } = await serve((_request, response) => response.end('{}'), tls);
  expect(await connect({ ca: tls.cert }).readJson(VERSION)).toEqual({});
  const failure = await failureOf(connect().readJson(VERSION));
  expect(failure).toMatchObject({ code: 'cli/no-service', fault: 'environment' });
  expect(failure['remedy']).toContain('VOIDBOX_SERVER_CA');
  expect(requests).toHaveLength(1);
});
