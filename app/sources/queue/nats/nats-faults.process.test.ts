/** Servers of NATS with logins, TLS and large messages, and one that is hostile. */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jetstreamManager } from '@nats-io/jetstream';
import { credsAuthenticator } from '@nats-io/transport-node';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { NatsQueue } from '../../../../domain/delivery/queue-source.ts';
import { MOST_PAYLOAD_BYTES } from '../../../../domain/delivery/delivery.ts';
import { makeVersion } from '../../../../test/conformance/deployments.ts';
import { ACK_WAIT_MS, makeNats } from '../../../../test/conformance/queues.ts';
import { createMemoryAccess } from '../../../../test/rig/access/memory-access.ts';
import { ensureNatsServer, NATS_BUILD_LIMIT_MS, NO_NATS } from '../../../../test/rig/queues/nats-program.ts';
import { createNatsOperator } from '../../../../test/rig/queues/nats-operator.ts';
import {
  type NatsServerOptions,
  startNatsServer,
  type TestNatsServer,
} from '../../../../test/rig/queues/nats-server.ts';
import { LOCALHOST_CERTIFICATE, LOCALHOST_KEY } from '../../../../test/rig/servers/localhost-certificate.ts';
import { keepQueue } from '../keep-queue.ts';
import type { OpenedQueue } from '../queue-port.ts';
import { openNats } from './open-nats.ts';

const SECRET = 'a-secret-of-this-test';

async function start(options: NatsServerOptions = {}): Promise<TestNatsServer> {
  const server = await startNatsServer(options);
  onTestFinished(() => server.stop());
  await server.addStream();
  return server;
}

async function open(
  server: string,
  changes: Partial<NatsQueue> = {},
  secrets: Readonly<Record<string, string>> = {},
): Promise<OpenedQueue> {
  const queue = await openNats({
    nats: makeNats(server, changes),
    secrets,
    clientName: 'test',
    ackWaitMs: ACK_WAIT_MS,
  });
  onTestFinished(() => queue.close());
  return queue;
}

async function readError(opening: Promise<unknown>): Promise<{ readonly code: string; readonly message: string }> {
  return await opening.then(
    () => expect.unreachable('the queue was opened'),
    (error: { readonly code: string; readonly message: string }) => error,
  );
}

describe.skipIf(NO_NATS !== null)(`NATS${NO_NATS === null ? '' : ` (not tested here: ${NO_NATS})`}`, () => {
  beforeAll(async () => void (await ensureNatsServer(console.error)), NATS_BUILD_LIMIT_MS);

  test('a token opens a queue, and another one is refused without being named', async () => {
    const settings = [`authorization: { token: "${SECRET}" }`];
    const server = await start({ settings, client: { token: SECRET } });
    const login = { kind: 'token', token: 'T' } as const;
    // A file has a line break at its end.
    expect(await open(server.address, { login }, { T: `${SECRET}\n` })).toBeDefined();
    const wrong = await readError(open(server.address, { login }, { T: 'another-secret' }));
    expect(wrong.code).toBe('queue/login-refused');
    expect(wrong.message).not.toContain('another-secret');
    expect((await readError(open(server.address))).code).toBe('queue/login-refused');
  });

  test('a user needs the password, and a right to the stream', async () => {
    const users = [
      `{ user: "owner", password: "${SECRET}" }`,
      `{ user: "stranger", password: "${SECRET}", permissions: { publish: "x", subscribe: "_INBOX.>" } }`,
    ];
    const settings = [`authorization: { users: [ ${users.join(', ')} ] }`];
    const server = await start({ settings, client: { user: 'owner', pass: SECRET } });
    const openAs = (user: string, password: string): Promise<OpenedQueue> =>
      open(server.address, { login: { kind: 'user', user, password: 'P' } }, { P: password });
    expect(await openAs('owner', SECRET)).toBeDefined();
    expect((await readError(openAs('owner', 'another'))).code).toBe('queue/login-refused');
    expect((await readError(openAs('stranger', SECRET))).code).toBe('queue/login-refused');
  });

  test('credentials of a user with a JWT open a queue, and those of others are refused without being named', async () => {
    const operator = createNatsOperator();
    const creds = operator.makeCreds();
    const client = { authenticator: credsAuthenticator(Buffer.from(creds)) };
    const server = await start({ settings: operator.settings, client });
    const openWith = (text: string): Promise<OpenedQueue> =>
      open(server.address, { login: { kind: 'creds', creds: 'C' } }, { C: text });
    expect(await openWith(creds)).toBeDefined();
    expect(await openWith(operator.makeCreds())).toBeDefined();
    const [, seed = ''] = /(SU[A-Z0-9]{50,})/.exec(creds) ?? [];
    const foreign = createNatsOperator().makeCreds();
    for (const refused of [
      foreign,
      operator.makeCreds({ expiresAt: Math.floor(Date.now() / 1_000) - 1 }),
      operator.makeCreds({ publish: ['other'] }),
      // The key of one user, and the JWT of another one.
      foreign.replace(/SU[A-Z0-9]{50,}/, seed),
      creds.slice(0, 200),
      creds.replace(/SU[A-Z0-9]{50,}/, 'SUAB'),
      'no credentials',
    ]) {
      const error = await readError(openWith(refused));
      expect([error.code, refused.slice(0, 40)]).toEqual(['queue/login-refused', refused.slice(0, 40)]);
      expect(error.message).not.toMatch(/SU[A-Z0-9]{50,}|eyJ/);
    }
    expect((await readError(openWith('no credentials'))).message).toBe(
      'the secret C is not a file of credentials of NATS',
    );
    expect((await readError(open(server.address))).code).toBe('queue/login-refused');
  });

  test('with tls:// the certificate must be of an authority that is trusted, and a server without TLS is refused', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'voidbox-nats-tls-'));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    writeFileSync(join(dir, 'key.pem'), LOCALHOST_KEY, { mode: 0o600 });
    writeFileSync(join(dir, 'cert.pem'), LOCALHOST_CERTIFICATE);
    const settings = [`tls: { cert_file: "${join(dir, 'cert.pem')}", key_file: "${join(dir, 'key.pem')}" }`];
    const server = await start({ settings, client: { tls: { ca: LOCALHOST_CERTIFICATE } } });
    const address = `tls://localhost:${server.port}`;
    expect(await open(address, { tlsCa: 'CA' }, { CA: LOCALHOST_CERTIFICATE })).toBeDefined();
    expect(await readError(open(address))).toMatchObject({
      code: 'queue/unreachable',
      message: expect.stringMatching(/self.signed certificate/) as string,
    });
    const plain = await start();
    expect((await readError(open(plain.address.replace('nats:', 'tls:')))).code).toBe('queue/unreachable');
  });

  test('a message of more than 1 MiB is refused once, and the messages after it arrive', async () => {
    const server = await start({ mostBytes: 8 * 1024 * 1024 });
    expect((await open(server.address)).mostAtOnce).toBe(1);
    await server.publish('orders.new', new Uint8Array(MOST_PAYLOAD_BYTES + 1));
    await server.publish('orders.new', new Uint8Array(MOST_PAYLOAD_BYTES));
    const { triggers } = createMemoryAccess();
    await triggers.deployments.deploy(makeVersion('orders'), { isPaused: false });
    const stop = new AbortController();
    const nats = makeNats(server.address);
    const kept = keepQueue(
      { deployment: 'orders', version: 1, trigger: 'queue', isOrdered: false, maxDeliver: 3 },
      {
        deliveries: triggers.deliveries,
        nowMs: Date.now,
        wake: () => undefined,
        log: () => undefined,
        open: openNats,
        prepare: () => Promise.resolve({ nats, secrets: {}, clientName: 'test' }),
        signal: stop.signal,
        countOpen: (most) => triggers.deliveries.countOpen('orders', 'queue', most),
        mayRead: () => true,
      },
    );
    await expect.poll(() => server.countUnsettled('voidbox')).toBe(0);
    stop.abort();
    await kept.ended;
    const rows = (await triggers.deliveries.list({ limit: 9 })).toReversed();
    expect(rows.map(({ state, code, bodyBytes }) => [state, code, bodyBytes])).toEqual([
      ['refused', 'trigger/too-large', 0],
      ['accepted', null, MOST_PAYLOAD_BYTES],
    ]);
  });

  test('a consumer with which messages could be lost is not read', async () => {
    const server = await start();
    const client = await server.connect();
    const manager = await jetstreamManager(client);
    await manager.consumers.add('ORDERS', { durable_name: 'voidbox', ack_policy: 'explicit', max_deliver: 5 });
    await client.close();
    expect(await readError(open(server.address))).toMatchObject({
      code: 'queue/bad-consumer',
      message: expect.stringContaining('has max_deliver 5') as string,
    });
  });
});

/** A server that announces another one, and refuses each login. */
async function serveHostile(announced: string): Promise<{ readonly port: number; readonly received: () => string }> {
  let received = '';
  const server: Server = createServer((socket: Socket) => {
    socket.on('error', () => undefined);
    const info = { server_id: 'X', version: '2.14.0', proto: 1, max_payload: 1_048_576, connect_urls: [announced] };
    socket.write(`INFO ${JSON.stringify({ ...info, headers: true, jetstream: true })}\r\n`);
    socket.on('data', (bytes) => {
      received += bytes.toString();
      if (received.includes('CONNECT')) socket.end("-ERR 'Authorization Violation'\r\n");
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { port: (server.address() as AddressInfo).port, received: () => received };
}

test('a server cannot send the service and its login to another server', async () => {
  let connections = 0;
  const other = createServer((socket) => {
    connections += 1;
    socket.destroy();
  }).listen(0, '127.0.0.1');
  await once(other, 'listening');
  onTestFinished(() => void other.close());
  const hostile = await serveHostile(`127.0.0.1:${(other.address() as AddressInfo).port}`);
  const login = { kind: 'token', token: 'T' } as const;
  const refused = await readError(open(`nats://127.0.0.1:${hostile.port}`, { login }, { T: SECRET }));
  expect([refused.code, connections]).toEqual(['queue/login-refused', 0]);
  expect(hostile.received()).toContain(SECRET);
});

test('a server without TLS gets no login with tls://', async () => {
  const hostile = await serveHostile('127.0.0.1:1');
  const login = { kind: 'token', token: 'T' } as const;
  const refused = await readError(open(`tls://127.0.0.1:${hostile.port}`, { login }, { T: SECRET }));
  expect([refused.code, hostile.received()]).toEqual(['queue/unreachable', '']);
});
