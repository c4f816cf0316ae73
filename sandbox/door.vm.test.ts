/** The door of real VMs: a guest reaches its services over it, and nothing of its host in any other way. */
import { createHash } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Sandbox } from '../activities/ports/sandbox.ts';
import { readEnvironment } from '../setup/environment.ts';
import { resolveHostPieces } from '../setup/resolve.ts';
import { limit, run, script, textOf } from '../test/conformance/sandbox/behaviour.ts';
import { createRealHost, type RealHost, SMALL_VM } from '../test/conformance/sandbox/real-host.ts';

const LARGE_BYTES = 1024 ** 3;
/** A block in which no two pages are equal. */
const BLOCK = Buffer.from(Uint32Array.from({ length: 256 * 1024 }, (_, at) => at * 2_654_435_761).buffer);

let server: Server;
let host: RealHost;
let port: number;
let requests = 0;

beforeAll(async () => {
  server = createServer((request, response) => {
    requests += 1;
    if (request.url === '/large') {
      response.writeHead(200, { 'content-length': LARGE_BYTES });
      Readable.from(Array.from({ length: LARGE_BYTES / BLOCK.length }, () => BLOCK)).pipe(response);
    } else if (request.url === '/block') {
      response.end(BLOCK);
    } else response.end(`hello ${request.headers.host ?? ''}\n`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as AddressInfo).port;
  host = await createRealHost(await resolveHostPieces(readEnvironment(), { install: true }));
}, 600_000);

afterAll(async () => {
  server.closeAllConnections();
  server.close();
  const left = await host.dispose();
  if (left.length > 0) throw new Error(`VMs were left: ${left.join(', ')}`);
});

async function launch(scope: string, egress: NonNullable<typeof SMALL_VM.egress>): Promise<Sandbox> {
  return host.backend.launch({ runId: 'door', scope, instance: [], generation: 0 }, { ...SMALL_VM, egress }, limit());
}

describe('a guest with a service of its host’s loopback', () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await launch('service', {
      allow: 'any',
      deny: [],
      services: [{ name: 'web', host: '127.0.0.1', port }],
    });
  }, 200_000);
  afterAll(async () => sandbox.stop());

  const text = async (command: string): Promise<string> => textOf(sandbox, script(command));

  test('reaches it by its name, and by the gateway’s address through the proxy', async () => {
    expect(await text(`wget -q -O - http://web:${port}/`)).toBe(`hello web:${port}`);
    expect(await text(`wget -q -O - http://10.0.2.2:${port}/`)).toBe(`hello 10.0.2.2:${port}`);
    const connect = `printf 'CONNECT 10.0.2.2:${port} HTTP/1.1\\r\\n\\r\\n' | nc -w 5 127.0.0.1 3128 | head -n 1`;
    expect(await text(connect)).toMatch(/^HTTP\/1\.1 200 /);
  }, 120_000);

  test("the guest's variables name the proxy, and variables of a command take precedence", async () => {
    expect(await text('echo $http_proxy $HTTPS_PROXY $ALL_PROXY')).toBe(
      'http://127.0.0.1:3128 http://127.0.0.1:3128 http://127.0.0.1:3128',
    );
    expect(await text('echo $no_proxy')).toBe('localhost,127.0.0.1,::1,web,127.0.1.1');
    expect(await textOf(sandbox, script('echo $http_proxy', { env: { http_proxy: 'mine' } }))).toBe('mine');
  }, 300_000);

  test('reaches the host’s loopback by no other name and by no number', async () => {
    const before = requests;
    const hosts = [
      '127.0.0.1',
      'localhost',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '2130706433',
      '0x7f000001',
      '0177.0.0.1',
      '127.1',
    ];
    for (const name of [...hosts, '0.0.0.0', '169.254.169.254']) {
      const ask = (head: string): string => `printf '${head}\\r\\n\\r\\n' | nc -w 5 127.0.0.1 3128 | head -n 1`;
      expect(await text(ask(`CONNECT ${name}:${port} HTTP/1.1`)), name).toMatch(/^HTTP\/1\.1 403 /);
      expect(await text(ask(`GET http://${name}:${port}/ HTTP/1.1\\r\\nHost: web`)), name).toMatch(/^HTTP\/1\.1 403 /);
    }
    expect(requests).toBe(before);
  }, 240_000);

  test('has no network but that', async () => {
    expect(await text('ls /sys/class/net')).toBe('lo');
    for (const direct of [`http://127.0.0.1:${port}/`, 'http://192.0.2.1/', `http://10.0.2.2:${port}/`]) {
      const { exit } = await run(sandbox, script(`wget -q -Y off -O - ${direct}`));
      expect(exit, direct).toMatchObject({ reason: 'exited', exitCode: 1 });
    }
  }, 300_000);

  test('does not get at the helper that serves it', async () => {
    expect(await text('ps | grep -c "[-]-door" || true')).toBe('0');
    const { exit } = await run(sandbox, script('for p in $(seq 2 400); do kill -9 $p 2>/dev/null; done; true'));
    expect(exit.reason).toMatch(/exited|killed/);
    expect(await text(`wget -q -O - http://web:${port}/`)).toBe(`hello web:${port}`);
  }, 300_000);

  test('the proxy runs as a user of its own, which is neither root nor the user of the command', async () => {
    // Reads the users of both ends of a connection to the proxy. `/proc` shows no process of another user.
    const users = `(sleep 5 | nc 127.0.0.1 3128 >/dev/null) & sleep 2
      awk '$4 == "01" && $2 ~ /:0C38$/ { print "theirs", $8 } $4 == "01" && $3 ~ /:0C38$/ { print "mine", $8 }' /proc/net/tcp | sort
      id -u; wait`;
    expect(await text(users)).toBe('mine 1000\ntheirs 990\n1000');
  }, 300_000);

  test('gets 1 GB whole, and each byte of a megabyte of it as it was sent', async () => {
    // `wget` fails at fewer bytes than were announced, and the keeper counts what it has passed on.
    const all = script(`wget -q -O /dev/null http://web:${port}/large`, { timeoutMs: 500_000 });
    expect((await run(sandbox, all)).exit).toMatchObject({ reason: 'exited', exitCode: 0 });
    const key = { runId: 'door', scope: 'service', instance: [], generation: 0 };
    // The keeper writes the end of a connection after the guest has seen it.
    const findMostReceived = async (): Promise<number> => {
      const notices = Buffer.from(await host.backend.notices(key, 0)).toString();
      return Math.max(...notices.split('\n').map((line) => Number(/"receivedBytes":(\d+)/.exec(line)?.[1] ?? 0)));
    };
    await expect.poll(findMostReceived).toBeGreaterThan(LARGE_BYTES);
    const sum = createHash('md5').update(BLOCK).digest('hex');
    expect(await text(`wget -q -O - http://web:${port}/block | md5sum`)).toBe(`${sum}  -`);
  }, 600_000);
});

test('a guest without egress has no proxy and no variables', async () => {
  const sandbox = await host.backend.launch(
    { runId: 'door', scope: 'none', instance: [], generation: 0 },
    SMALL_VM,
    limit(),
  );
  try {
    expect(
      await textOf(sandbox, script('echo "[$http_proxy$NO_PROXY]"; nc -w 2 127.0.0.1 3128 </dev/null || echo refused')),
    ).toBe('[]\nrefused');
  } finally {
    await sandbox.stop();
  }
}, 200_000);
