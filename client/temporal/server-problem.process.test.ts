/** Servers that are away, are something else, or refuse: each error names the place, the fault and what to change. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createSecureServer, createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo, Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { LOCALHOST_CERTIFICATE, LOCALHOST_KEY } from '../../test/rig/servers/localhost-certificate.ts';
import { NoServerError } from './no-server.ts';
import { connectOwnServer } from './server-problem.ts';
import { readConfiguredAddress } from './temporal-address.ts';

/** By gRPC's numbers. */
type Answers = Readonly<Record<string, { readonly status: number; readonly message?: string }>>;

const OK: Answers[string] = { status: 0 };

/** Answers calls by their names, with nothing but a status. */
function asServer(server: Http2Server, answers: Answers): Http2Server {
  return server.on('stream', (stream: ServerHttp2Stream, headers) => {
    const { status, message = '' } = answers[String(headers[':path']).split('/').at(-1) ?? ''] ?? OK;
    stream.on('error', () => undefined);
    const head = { ':status': 200, 'content-type': 'application/grpc' };
    const said = { 'grpc-status': String(status), 'grpc-message': encodeURIComponent(message) };
    if (status !== 0) return stream.respond({ ...head, ...said }, { endStream: true });
    stream.respond(head, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers(said));
    // One message of no bytes: all fields have their defaults.
    stream.end(Buffer.alloc(5));
  });
}

async function listening(server: Server | Http2Server): Promise<number> {
  const open = new Set<{ destroy(): void }>();
  server.on('connection', (socket: { destroy(): void }) => open.add(socket));
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
  onTestFinished(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

async function problem(variables: Readonly<Record<string, string>>): Promise<NoServerError> {
  const env = readEnvironment({ HOME: '/nowhere', ...variables });
  const target = readConfiguredAddress(env);
  if (target === null) throw new Error('no server is named');
  const error = await connectOwnServer(target, env).then(
    async (runs) => {
      await runs.close();
      return null;
    },
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof NoServerError)) throw new Error('it has connected, or failed another way', { cause: error });
  return error;
}

const at = (port: number): { readonly TEMPORAL_ADDRESS: string } => ({ TEMPORAL_ADDRESS: `localhost:${port}` });

test.each(['http://localhost:7233', 'localhost:abc', 'localhost:0', 'a b'])('%s is not an address', async (address) => {
  expect(await problem({ TEMPORAL_ADDRESS: address })).toMatchObject({
    kind: 'refused',
    message: `\`${address}\` is not the address of a Temporal server`,
    remedy: expect.stringContaining('HOST:PORT'),
  });
});

test('if no server listens, the error reports that and names the variables that chose the address', async () => {
  const server = createServer();
  const port = await listening(server);
  await new Promise((resolve) => server.close(resolve));
  const error = await problem({ ...at(port), TEMPORAL_NAMESPACE: 'mine' });
  expect(error).toMatchObject({
    kind: 'away',
    message: `nothing listens at localhost:${port}, where the Temporal server should be`,
  });
  expect(error.remedy).toContain('This server is named by TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE;');
});

test('a namespace that is not there is named, with the line that makes it', async () => {
  const port = await listening(
    asServer(createServer(), { DescribeNamespace: { status: 5, message: 'Namespace mine is not found.' } }),
  );
  const error = await problem({ ...at(port), TEMPORAL_NAMESPACE: 'mine' });
  expect(error).toMatchObject({
    kind: 'refused',
    message: `the Temporal server at localhost:${port} has no namespace \`mine\``,
  });
  expect(error.remedy).toContain(`temporal operator namespace create --address localhost:${port} --namespace mine`);
});

test('the errors for a rejected key and for a missing key differ', async () => {
  const port = await listening(
    asServer(createServer(), { GetSystemInfo: { status: 16, message: 'Request unauthorized.' } }),
  );
  const without = await problem(at(port));
  expect(without).toMatchObject({ kind: 'refused', message: expect.stringContaining('no API key was sent') });
  expect(without.remedy).toContain('export TEMPORAL_API_KEY=');
  const wrong = await problem({ ...at(port), TEMPORAL_API_KEY: 'secret-key', TEMPORAL_TLS: 'false' });
  expect(wrong.message).toContain('refuses calls to namespace `default`');
  expect(wrong.message).toContain('an API key was sent');
  expect(wrong.remedy).toContain('Check TEMPORAL_API_KEY');
  expect(wrong.message + wrong.remedy).not.toContain('secret-key');
});

test('a role that may not describe the namespace still connects', async () => {
  const port = await listening(
    asServer(createServer(), { DescribeNamespace: { status: 7, message: 'Request unauthorized.' } }),
  );
  const env = readEnvironment({ HOME: '/nowhere', ...at(port) });
  await (await connectOwnServer(readConfiguredAddress(env)!, env)).close();
});

test('the error names the setting if only one side uses TLS', async () => {
  const plain = await listening(asServer(createServer(), {}));
  expect(await problem({ ...at(plain), TEMPORAL_API_KEY: 'k' })).toMatchObject({
    kind: 'refused',
    message: `the server at localhost:${plain} does not speak TLS, but the connection uses it (an API key turns it on)`,
    remedy: expect.stringContaining('export TEMPORAL_TLS=false'),
  });
  const secure = await listening(asServer(createSecureServer({ key: LOCALHOST_KEY, cert: LOCALHOST_CERTIFICATE }), {}));
  expect(await problem(at(secure))).toMatchObject({
    kind: 'refused',
    message: `the server at localhost:${secure} speaks TLS, but the connection does not use it`,
    remedy: expect.stringContaining('export TEMPORAL_TLS=true'),
  });
});

test("the error for an unknown signer contains its code; with the signer's certificate the client reaches the server", async () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-tls-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const port = await listening(
    asServer(createSecureServer({ key: LOCALHOST_KEY, cert: LOCALHOST_CERTIFICATE }), {
      DescribeNamespace: { status: 16, message: 'who are you' },
    }),
  );
  const unknown = await problem({ ...at(port), TEMPORAL_TLS: 'true' });
  expect(unknown).toMatchObject({ kind: 'refused', message: expect.stringContaining('DEPTH_ZERO_SELF_SIGNED_CERT') });
  expect(unknown.remedy).toContain('TEMPORAL_TLS_SERVER_CA_CERT_PATH');
  writeFileSync(join(dir, 'ca.pem'), LOCALHOST_CERTIFICATE);
  const known = await problem({ ...at(port), TEMPORAL_TLS_SERVER_CA_CERT_PATH: join(dir, 'ca.pem') });
  expect(known.message).toContain('who are you');
});

test('a server that does not know the calls is reported as no Temporal server', async () => {
  const port = await listening(asServer(createServer(), { DescribeNamespace: { status: 12, message: 'not here' } }));
  expect(await problem(at(port))).toMatchObject({
    kind: 'refused',
    message: `what answers at localhost:${port} is not a Temporal server: not here`,
    remedy: expect.stringContaining('not that of its UI'),
  });
});
