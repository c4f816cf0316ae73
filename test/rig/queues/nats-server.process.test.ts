import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ensureNatsServer, NATS_BUILD_LIMIT_MS, NO_NATS } from './nats-program.ts';
import { startNatsServer, type TestNatsServer } from './nats-server.ts';

let broker: TestNatsServer;

describe.skipIf(NO_NATS !== null)(`NATS${NO_NATS === null ? '' : ` (not tested here: ${NO_NATS})`}`, () => {
  beforeAll(async () => {
    await ensureNatsServer(console.error);
    broker = await startNatsServer();
  }, NATS_BUILD_LIMIT_MS);

  afterAll(async () => await broker.stop(), 60_000);

  test('two restarts at once take turns, and the server answers with its data afterwards', async () => {
    await broker.addStream();
    await Promise.all([broker.restart(), broker.restart()]);
    expect(await broker.publish('orders.new', 'x')).toBe(1);
  }, 300_000);

  test('a start that is killed ends at once with the signal', async () => {
    await broker.kill();
    const starting = broker.start();
    const [start] = await Promise.allSettled([starting, broker.kill()]);
    expect(String(start.status === 'rejected' && start.reason)).toContain('SIGKILL');
    await broker.start();
  }, 300_000);
});
