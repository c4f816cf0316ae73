/**
 * A guest of the dev image tries to get past its door: by sockets, many connections, redirects, and a server of its
 * host.
 */
import { createServer as createHttpServer, type Server as HttpServer } from 'node:http';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { hostname } from 'node:os';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Sandbox } from '../activities/ports/sandbox.ts';
import { readEnvironment } from '../setup/environment.ts';
import type { HostPieces } from '../setup/pieces/host-pieces.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { limit, request, run, script, textOf } from '../test/conformance/sandbox/behaviour.ts';
import { createRealHost, type RealHost, SMALL_VM } from '../test/conformance/sandbox/real-host.ts';

const KEY = { runId: 'hostile-network', scope: 'dev', instance: [], generation: 0 };

/** The service that the guest may reach: `/to?URL` redirects to the URL. */
let web: HttpServer;
let webPort: number;
/** Acts as the server of Temporal on the worker's host; it listens on all addresses. */
let temporal: Server;
let temporalPort: number;
let accepted = 0;
let host: RealHost;
let kernel: HostPieces['kernel']['kind'];
let sandbox: Sandbox;

beforeAll(async () => {
  web = createHttpServer(({ url = '' }, response) => {
    const location = /^\/to\?(.*)$/.exec(url)?.[1];
    if (location === undefined) response.end('hello\n');
    else response.writeHead(302, { location }).end();
  });
  temporal = createServer((socket) => {
    accepted += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
  await new Promise<void>((resolve) => temporal.listen(0, '0.0.0.0', resolve));
  webPort = (web.address() as AddressInfo).port;
  temporalPort = (temporal.address() as AddressInfo).port;
  const pieces = await resolveHostPieces(readEnvironment(), { install: true });
  kernel = pieces.kernel.kind;
  host = await createRealHost(pieces);
  const egress = { allow: 'any', deny: [], services: [{ name: 'web', host: '127.0.0.1', port: webPort }] } as const;
  const dev = { ...SMALL_VM, memoryMib: 384, diskMib: 256, image: { kind: 'dev' }, egress } as const;
  sandbox = await host.backend.launch(KEY, dev, limit());
}, 1_200_000);

afterAll(async () => {
  await sandbox.stop();
  web.closeAllConnections();
  web.close();
  temporal.close();
  const left = await host.dispose();
  if (left.length > 0) throw new Error(`VMs were left: ${left.join(', ')}`);
});

const sh = async (line: string): Promise<string> => await textOf(sandbox, script(line));
const python = async (program: string): Promise<unknown> =>
  JSON.parse(await textOf(sandbox, request('python3', ['-c', program]))) as unknown;

/** Lists the refusals of the door so far, as `host:port cause`. */
async function refusals(): Promise<readonly string[]> {
  const lines = Buffer.from(await host.backend.notices(KEY, 0))
    .toString()
    .trimEnd()
    .split('\n');
  return lines.flatMap((line) => {
    const notice = JSON.parse(line) as { kind: string; host?: string; port?: number; cause?: string };
    return notice.kind === 'refused' ? [`${notice.host}:${notice.port} ${notice.cause}`] : [];
  });
}

const SOCKETS = `
import errno, json
from socket import *
def tried(act):
    try:
        act()
        return 'done'
    except OSError as error:
        return errno.errorcode[error.errno]
def send(address):
    it = socket(AF_INET, SOCK_DGRAM)
    it.setsockopt(SOL_SOCKET, SO_BROADCAST, 1)
    it.sendto(b'x', address)
print(json.dumps({
    'packet': tried(lambda: socket(AF_PACKET, SOCK_RAW, htons(3))),
    'packet, cooked': tried(lambda: socket(AF_PACKET, SOCK_DGRAM, htons(3))),
    'raw': tried(lambda: socket(AF_INET, SOCK_RAW, IPPROTO_RAW)),
    'icmp': tried(lambda: socket(AF_INET, SOCK_RAW, IPPROTO_ICMP)),
    'udp': [tried(lambda: send((to, 53))) for to in ['192.0.2.1', '8.8.8.8', '10.0.2.2', '169.254.169.254', '255.255.255.255']],
    'udp to itself': tried(lambda: send(('127.0.0.1', 53))),
}))
`;

test('sockets that pass by the door are refused, also to root of a user namespace, and no packet leaves', async () => {
  // Voidbox's own kernel is built without packet sockets.
  const noPackets = kernel === 'voidbox' ? 'EAFNOSUPPORT' : 'EPERM';
  const refused = { packet: noPackets, 'packet, cooked': noPackets, raw: 'EPERM', icmp: 'EPERM' };
  const nowhere = { udp: Array.from({ length: 5 }, () => 'ENETUNREACH'), 'udp to itself': 'done' };
  expect(await python(SOCKETS)).toEqual({ ...refused, ...nowhere });
  const asRoot = request('unshare', ['-Ur', 'python3', '-c', SOCKETS]);
  expect(JSON.parse(await textOf(sandbox, asRoot))).toEqual({ ...refused, ...nowhere });
}, 300_000);

test('two hundred connections at once: some are refused with the limit, and a later one is served', async () => {
  const flood = `
import collections, json, socket
head = b'CONNECT web:${webPort} HTTP/1.1\\r\\n\\r\\n'
def opened():
    it = socket.create_connection(('127.0.0.1', 3128), 20)
    try: it.sendall(head)
    except OSError: pass
    return it
def answer(it):
    try: return it.recv(4096).decode()
    except ConnectionError: return ''
all = [opened() for _ in range(200)]
answers = [answer(it) for it in all]
statuses = collections.Counter(each[9:12] or 'reset' for each in answers)
reasons = {each.split('\\r\\n\\r\\n', 1)[1].strip() for each in answers if each[9:12] == '503'}
print(json.dumps({'statuses': statuses, 'reasons': sorted(reasons)}))
`;
  const { statuses, reasons } = (await python(flood)) as {
    readonly statuses: Readonly<Record<string, number>>;
    readonly reasons: readonly string[];
  };
  const count = (status: string): number => statuses[status] ?? 0;
  expect(count('200') + count('503') + count('reset'), JSON.stringify(statuses)).toBe(200);
  expect(count('200')).toBeGreaterThan(0);
  // The limit of docs/reference/keeper.md.
  expect(count('200')).toBeLessThanOrEqual(64);
  expect(count('503')).toBeGreaterThan(0);
  for (const reason of reasons)
    expect(reason).toMatch(/(64|128) connections are open|more than 50 new connections in a second/);
  expect(await refusals()).toContainEqual(expect.stringMatching(/ limit$/));
  expect(await sh(`sleep 1.1; curl -sS http://web:${webPort}/`)).toBe('hello');
}, 300_000);

test('a redirect reaches no closed address, and a notice names the address', async () => {
  const follow = `curl -s -L -o /dev/null -w '%{http_code} %{http_connect} %{url_effective}'`;
  const from = (to: string): string => `http://web:${webPort}/to?${to}`;
  const metadata = 'http://169.254.169.254/latest/meta-data/';
  expect(await sh(`${follow} '${from(metadata)}'`)).toBe(`403 000 ${metadata}`);
  const loopback = `http://127.0.0.1:${temporalPort}/`;
  expect(await sh(`${follow} --noproxy '' '${from(loopback)}'`)).toBe(`403 000 ${loopback}`);
  const tls = `https://localhost:${temporalPort}/`;
  expect(await sh(`${follow} --noproxy '' '${from(tls)}' || true`)).toBe(`000 403 ${tls}`);
  // With the guest's own variables, this address is the guest's loopback.
  const { exit } = await run(sandbox, script(`${follow} '${from(loopback)}'`));
  expect(exit).toMatchObject({ reason: 'exited', exitCode: 7 });
  expect(await refusals()).toEqual(
    expect.arrayContaining([
      '169.254.169.254:80 closed',
      `127.0.0.1:${temporalPort} closed`,
      `localhost:${temporalPort} closed`,
    ]),
  );
  expect(accepted).toBe(0);
}, 300_000);

test('a server of Temporal on the host is reached by no address and by no name', async () => {
  const port = temporalPort;
  const direct = `curl -s -m 5 --noproxy '*' -o /dev/null`;
  for (const address of ['127.0.0.1', '10.0.2.2', '127.0.1.1'])
    expect(await sh(`${direct} http://${address}:${port}/; echo $?`), address).toBe('7');
  // 502: the host's resolver does not know the name.
  const names: readonly (readonly [string, RegExp])[] = [
    ['127.0.0.1', /^403$/],
    ['10.0.2.2', /^403$/],
    ['localhost', /^403$/],
    [hostname(), /^(403|502)$/],
    ['web', /^(403|502)$/],
  ];
  const answer = `curl -s -m 10 --noproxy '' -o /dev/null -w`;
  for (const [name, status] of names) {
    expect(await sh(`${answer} '%{http_code}' http://${name}:${port}/`), name).toMatch(status);
    // gRPC uses a tunnel.
    expect(await sh(`${answer} '%{http_connect}' -p http://${name}:${port}/ || true`), name).toMatch(status);
  }
  expect(accepted).toBe(0);
  // The control: the server accepts a connection from the host.
  await new Promise((resolve) => connect(port, '127.0.0.1').on('close', resolve).resume());
  expect(accepted).toBe(1);
}, 300_000);
