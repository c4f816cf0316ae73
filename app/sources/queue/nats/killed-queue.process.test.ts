/** A queue whose server and readers are killed at random moments: JetStream, PostgreSQL and two processes. */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeVersion } from '../../../../test/conformance/deployments.ts';
import {
  type KilledProcess,
  type KilledProcesses,
  openKilledProcesses,
} from '../../../../test/rig/access/killed-processes.ts';
import { ensureNatsServer, NATS_BUILD_LIMIT_MS, NO_NATS } from '../../../../test/rig/queues/nats-program.ts';
import { startNatsServer, type TestNatsServer } from '../../../../test/rig/queues/nats-server.ts';

const PROCESSES = 2;
/** The last messages are after the last kill. */
const LAST_MESSAGES = 20;
const KILLS = 9;
const LIMIT_MS = 90_000;

let processes: KilledProcesses;
let broker: TestNatsServer;

describe.skipIf(NO_NATS !== null)(`NATS${NO_NATS === null ? '' : ` (not tested here: ${NO_NATS})`}`, () => {
  beforeAll(async () => {
    await ensureNatsServer(console.error);
    processes = await openKilledProcesses('queues/queue-process.ts');
    broker = await startNatsServer();
    await broker.addStream();
  }, NATS_BUILD_LIMIT_MS);

  afterAll(async () => {
    await broker.stop();
    await processes.stop();
  }, 120_000);

  test('each message has one delivery, although the server and the readers of the queue are killed', async () => {
    const database = await processes.openDatabase();
    const { access } = database;
    const { deliveries, deployments } = access.triggers;
    await deployments.deploy(makeVersion('review'), { isPaused: false });
    const start = async () => await processes.start(database, { server: broker.address });
    const running = await Promise.all(Array.from({ length: PROCESSES }, start));
    let isKilling = true;
    const publishing = publishAll(() => isKilling);
    const until = Date.now() + LIMIT_MS;
    let kills = 0;
    for (; kills < KILLS && Date.now() < until; kills += 1) {
      const at = kills % (PROCESSES + 1);
      const reader = running[at];
      const wanted = sumAccepted(running) + 1 + Math.floor(Math.random() * 8);
      while (sumAccepted(running) < wanted && Date.now() < until) await sleep(1);
      if (reader === undefined) {
        await broker.restart();
      } else {
        await reader.kill();
        running[at] = await start();
      }
    }
    isKilling = false;
    const published = await publishing;
    expect(kills).toBe(KILLS);
    await expect.poll(() => broker.countUnsettled('voidbox'), { timeout: LIMIT_MS }).toBe(0);
    const rows = await deliveries.list({ limit: 999 });
    await Promise.all(running.map(endReader));
    await access.close();
    expect(rows.map(({ senderId }) => senderId).toSorted()).toEqual(
      Array.from({ length: published }, (_, index) => `event-${index}`).toSorted(),
    );
    expect(rows.every(({ state }) => state === 'accepted')).toBe(true);
  }, 240_000);
});

/**
 * A publisher repeats a message until the server has stored it; the id makes a repetition no second message.
 * @returns the number of messages
 */
async function publishAll(isKilling: () => boolean): Promise<number> {
  let index = 0;
  for (let left = LAST_MESSAGES; left > 0; index += 1) {
    for (;;) {
      const headers = { 'Nats-Msg-Id': `event-${index}` };
      const sent = broker.publish('orders.new', JSON.stringify({ index }), headers);
      if ((await sent.catch(() => null)) !== null) break;
      await sleep(20);
    }
    if (!isKilling()) left -= 1;
    await sleep(15);
  }
  return index;
}

/** The deliveries that readers have committed. */
const sumAccepted = (running: readonly KilledProcess[]): number => running.reduce((sum, { steps }) => sum + steps(), 0);

/** A reader that is asked to end does so without an error. */
async function endReader({ child }: KilledProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  expect(await ended).toEqual([0, null]);
}
