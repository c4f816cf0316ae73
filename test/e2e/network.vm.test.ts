/** The run's log contains the notices of a VM's door: each connection once, also if the worker dies in between. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunEventBody } from '../../domain/run/event.ts';
import { type Rig, until } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

type NetworkBody = Extract<RunEventBody, { type: 'network' }>;

const REQUESTS = 24;

/** All pages of the file are different. */
const FILE = Buffer.from(Uint32Array.from({ length: 12 * 1024 * 1024 }, (_, at) => at * 2_654_435_761).buffer);
const PIECE_BYTES = 512 * 1024;

/** A request for the file, as the server sees it. */
interface Transfer {
  sentBytes: number;
  /** The end of its connection; null: it is open. */
  endedMs: number | null;
}

let server: Server;
let port: number;
let answered = 0;
const transfers: Transfer[] = [];

/** Sends the first file slowly, so that it is in the middle for as long as the test needs. */
async function sendFile(response: ServerResponse): Promise<void> {
  const transfer: Transfer = { sentBytes: 0, endedMs: null };
  transfers.push(transfer);
  response.once('close', () => (transfer.endedMs = Date.now()));
  response.writeHead(200, { 'content-length': FILE.length });
  while (transfer.sentBytes < FILE.length && transfer.endedMs === null) {
    const piece = FILE.subarray(transfer.sentBytes, transfer.sentBytes + PIECE_BYTES);
    response.write(piece);
    transfer.sentBytes += piece.length;
    if (transfers.length === 1 && transfer.sentBytes > FILE.length / 4) await sleep(1_000);
    while (response.writableNeedDrain && transfer.endedMs === null) await sleep(5);
  }
  response.end();
}

beforeAll(async () => {
  server = createServer((request, response) => {
    if (request.url === '/file') return void sendFile(response);
    answered += 1;
    response.end('hello\n');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  ({ port } = server.address() as AddressInfo);
});

afterAll(() => server.close());

const spec = (): string => `
kind: workflow
name: network
sandbox:
  services: { web: "127.0.0.1:${port}" }
workflow:
  steps:
    - name: ask
      run:
        program: sh
        args:
          - -c
          - |
            for n in $(seq ${REQUESTS}); do
              wget -q -O - http://web:${port}/ || exit 3
              wget -q -O - http://host-$n.example/ 2>/dev/null && exit 4
              echo "asked $n"
              sleep 0.3
            done
            (sleep 60 | nc web ${port}) & sleep 1
            exit 7
`;

async function told(rig: Rig, runId: string): Promise<NetworkBody[]> {
  const bodies = (await rig.events(runId)).map(({ body }) => body);
  return bodies.filter((body): body is NetworkBody => body.type === 'network');
}

test('refusals and connections are events, once each, with the worker killed in the middle', async () => {
  const rig = theRig();
  const run = rig.start('run', rig.spec('network.yaml', spec()), '--run-id', 'net');
  await rig.waitOutput('net', 'ask', 'asked 6\n');
  await until('an event of the door', 20_000, async () => (await told(rig, 'net')).length > 0);
  rig.kill((await rig.liveStack()).workerPid);
  const { code, stderr } = await run.done;
  expect(code, stderr).toBe(1);
  expect(answered).toBe(REQUESTS);

  const bodies = await told(rig, 'net');
  const refused = bodies.filter(({ kind }) => kind === 'refused');
  expect(refused.map((body) => ('host' in body ? body.host : ''))).toEqual(
    Array.from({ length: REQUESTS }, (_, index) => `host-${index + 1}.example`),
  );
  const closed = bodies.filter((body) => body.kind === 'closed');
  // The last connection is open when its command ends.
  expect(closed).toHaveLength(REQUESTS + 1);
  const whole = closed.filter(({ host, end, receivedBytes }) => host === 'web' && end === 'clean' && receivedBytes > 6);
  expect(whole).toHaveLength(REQUESTS);
  expect(closed.at(-1)).toMatchObject({ service: 'web', sentBytes: 0 });
  expect(bodies.map(({ offset }) => offset)).toEqual(bodies.map(({ offset }) => offset).toSorted((a, b) => a - b));
  const types = (await rig.events('net')).map(({ body }) => body.type);
  expect(types.lastIndexOf('network')).toBeLessThan(types.lastIndexOf('vm-stopped'));

  expect(stderr).toMatch(/host-1\.example:80 refused: /);
  expect(stderr).toContain('to allow them, add host-1.example:80, host-2.example:80, host-3.example:80');
  const logs = await rig.cli('logs', 'net', '--network', '--grep', 'host-');
  expect(logs.stdout.trim().split('\n')).toHaveLength(REQUESTS);
  const json = (await rig.cli('logs', 'net', '--network', '--json')).stdout.trim().split('\n');
  expect(json).toHaveLength(bodies.length);
  const status = JSON.parse((await rig.cli('status', 'net', '--json')).stdout) as { readonly network: object };
  expect(status.network).toMatchObject({ connections: REQUESTS + 1, refused: REQUESTS, isIncomplete: false });
});

const transferSpec = (): string => `
kind: workflow
name: transfer
sandbox:
  memory_mb: 256
  services: { web: "127.0.0.1:${port}" }
workflow:
  steps:
    - name: take
      run:
        program: sh
        args:
          - -c
          - |
            wget -q -O - http://web:${port}/ && ! wget -q -O - http://host.example/ 2>/dev/null || exit 3
            wget -q -O - http://web:${port}/file | sha256sum
`;

/** For two VMs, one after the other, while other tests run. */
const TRANSFER_LIMIT_MS = 600_000;

test(
  'the keeper dies in the middle of a transfer: the server sees its end, and the next VM gets the file whole',
  { timeout: TRANSFER_LIMIT_MS },
  async () => {
    const rig = theRig();
    await rig.launch(rig.spec('transfer.yaml', transferSpec()), 'transfer');
    await until('events of the door', 200_000, async () => (await told(rig, 'transfer').catch(() => [])).length > 1);
    const [first] = await until('a part of the file', 100_000, () =>
      transfers.length === 1 && transfers[0]!.sentBytes > FILE.length / 4 ? transfers : null,
    );
    expect(first!.endedMs).toBeNull();
    rig.kill(rig.keepers()[0]!.pid);
    await until('the end of its connection', 20_000, () => first!.endedMs !== null, 10);
    expect(first!.sentBytes).toBeLessThan(FILE.length);

    expect((await rig.finish('transfer', 300_000)).outcome.state).toBe('succeeded');
    const sum = createHash('sha256').update(FILE).digest('hex');
    expect(await rig.output('transfer', 'take')).toBe(`hello\nhello\n${sum}  -\n`);
    expect(transfers).toHaveLength(2);
    const events = await rig.events('transfer');
    expect(events.filter(({ body }) => body.type === 'vm-lost')).toHaveLength(1);
    expect(events.flatMap(({ body }) => (body.type === 'stage-started' ? [body.attempt] : []))).toHaveLength(2);
    // Notices that the dead keeper had not sent are lost; each other notice is logged once.
    const bodies = await told(rig, 'transfer');
    // The keeper may see the end of a connection after it refuses the next one.
    expect(bodies.map(({ generation, kind }) => `${generation} ${kind}`).toSorted()).toEqual([
      '0 closed',
      '0 refused',
      '1 closed',
      '1 closed',
      '1 refused',
    ]);
    expect(bodies.map(({ generation }) => generation)).toEqual([0, 0, 1, 1, 1]);
    expect(bodies.at(-1)).toMatchObject({ host: 'web', end: 'clean' });
    expect(bodies.at(-1)).toHaveProperty('receivedBytes', expect.closeTo(FILE.length, -4));
  },
);
