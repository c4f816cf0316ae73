/** What a VM's door did is in the run's log: each connection once, also when the worker dies in between. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunEventBody } from '../../domain/run/event.ts';
import { Rig, until } from './rig.ts';

type NetworkBody = Extract<RunEventBody, { type: 'network' }>;

const REQUESTS = 24;

let server: Server;
let port: number;
let answered = 0;

beforeAll(async () => {
  server = createServer((_request, response) => {
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
  await using rig = new Rig();
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
  // The last one is open when its command ends.
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
  await rig.assertNothingLeft();
});
