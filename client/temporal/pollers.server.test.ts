import { NativeConnection, Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { temporalCliForTests } from '../../test/rig/servers/temporal-cli.ts';
import { startTestServer, type TestServer } from '../../test/rig/servers/test-server.ts';
import { testBundle } from '../../test/rig/servers/workflow-bundle.ts';
import { connectRuns, type RunsConnection } from './connect.ts';
import { readLastPollTime } from './pollers.ts';
import { createEmbeddedAddress } from './temporal-address.ts';

const QUEUE = 'polled';

let server: TestServer;
let runs: RunsConnection;
let connection: NativeConnection;
beforeAll(async () => {
  server = await startTestServer(await temporalCliForTests());
  runs = await connectRuns(createEmbeddedAddress(server.address));
  connection = await NativeConnection.connect({ address: server.address });
});
afterAll(async () => {
  await connection?.close();
  await runs?.close();
  await server?.stop();
});

async function startWorker(): Promise<() => Promise<void>> {
  const worker = await Worker.create({ connection, taskQueue: QUEUE, workflowBundle: await testBundle() });
  const ended = worker.run();
  return async () => {
    worker.shutdown();
    await ended;
  };
}

const readPoll = (): Promise<number | null> => readLastPollTime(runs.client, QUEUE);

test('a worker counts while it polls and not after its clean end; its successor in the same process counts again', async () => {
  expect(await readPoll()).toBeNull();
  const stop = await startWorker();
  await expect.poll(readPoll).not.toBeNull();
  await stop();
  expect(await readPoll()).toBeNull();
  const stopAgain = await startWorker();
  await expect.poll(readPoll).not.toBeNull();
  await stopAgain();
  expect(await readPoll()).toBeNull();
});

test('a task queue whose name has a quote is read without its workers', async () => {
  await expect(readLastPollTime(runs.client, "o'clock")).resolves.toBeNull();
});
