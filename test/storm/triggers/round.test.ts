import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { Rig } from '../../e2e/rig.ts';
import type { ListedDelivery } from './findings.ts';
import { awaitOutcomes } from './round.ts';
import { describeTime } from './sender.ts';
import { SCHEDULE_MS, TIMED } from './spec.ts';

const FIRST_MS = SCHEDULE_MS * 1_000;

function makeTimed(atMs: number): ListedDelivery {
  return {
    id: String(atMs),
    trigger: TIMED,
    state: 'started',
    runId: null,
    runEndedAtMs: null,
    into: null,
    code: null,
    bodySha256: describeTime(atMs).bodySha256,
    schedule: { atMs, isAsked: false },
  };
}

test('a round waits for a time of the schedule that arrives after a later one', async () => {
  const [first, later, latest] = [0, 1, 2].map((at) => makeTimed(FIRST_MS + at * SCHEDULE_MS)) as [
    ListedDelivery,
    ListedDelivery,
    ListedDelivery,
  ];
  const answers = [
    [latest, first],
    [latest, first],
    [later, latest, first],
  ];
  const server = createServer((_request, response) => {
    const deliveries = answers.length > 1 ? answers.shift() : answers[0];
    response.end(JSON.stringify({ deliveries }));
  });
  server.listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const lane = {
    rig: { stateDir: '/nonexistent', hasEvent: () => Promise.resolve(true) } as unknown as Rig,
    service: { stateDir: '/nonexistent', port, token: 'x' },
    earlier: {
      deliveries: new Set<string>(),
      runs: new Set<string>(),
      followed: new Set<string>(),
      firedUntilMs: FIRST_MS - 1,
      firstFiredMs: FIRST_MS,
    },
  };
  const { rows } = await awaitOutcomes(lane, [describeTime(FIRST_MS)], Date.now() + 30_000);
  expect(rows).toEqual([first, latest, later]);
});
