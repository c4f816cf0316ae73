/** Commands in real VMs from a worker that is not Voidbox's: they outlive it, and its successor attaches to them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { CommandOutcome } from '../activities/contract-command.ts';
import { connectRuns, type RunsConnection } from '../client/temporal/connect.ts';
import { createEmbeddedAddress } from '../client/temporal/temporal-address.ts';
import { openStores } from '../store/open-stores.ts';
import type { Stores } from '../store/stores.ts';
import { type PluginProject, pluginProject, type WorkerChild } from './rig/servers/plugin-project.ts';
import { temporalCliForTests } from './rig/servers/temporal-cli.ts';
import { startTestServer, type TestServer } from './rig/servers/test-server.ts';

const WORKFLOWS = `
import { type CommandRequest, runCommand } from 'voidbox/temporal/workflows';
export { voidboxRun } from 'voidbox/temporal/workflows';
export async function command(request: CommandRequest) {
  return await runCommand(request);
}
`;

const WORKER = `
import { fileURLToPath } from 'node:url';
import { NativeConnection, Worker } from '@temporalio/worker';
import { createVoidboxPlugin } from 'voidbox/temporal';

const connection = await NativeConnection.connect({ address: process.argv[2] });
const worker = await Worker.create({
  connection,
  taskQueue: 'theirs',
  workflowsPath: fileURLToPath(new URL('workflows.ts', import.meta.url)),
  plugins: [createVoidboxPlugin({ allowMounts: [fileURLToPath(new URL('shared', import.meta.url))] })],
});
await worker.run();
await connection.close();
`;

let server: TestServer;
let runs: RunsConnection;
let project: PluginProject;
let stores: Stores;
let worker: WorkerChild;

beforeAll(async () => {
  server = await startTestServer(await temporalCliForTests());
  runs = await connectRuns(createEmbeddedAddress(server.address));
  project = pluginProject({ 'workflows.ts': WORKFLOWS, 'worker.mjs': WORKER });
  worker = await project.startWorker([server.address]);
  stores = await openStores({ stateDir: project.stateDir });
});

afterAll(async () => {
  await stores?.close();
  await project?.remove();
  await runs?.close();
  await server?.stop();
});

test('a command continues while its worker is killed, and the next worker attaches to it', async () => {
  const handle = await runs.client.workflow.start('command', {
    taskQueue: 'theirs',
    workflowId: 'counts',
    args: [
      {
        program: 'sh',
        args: ['-c', 'read word; for i in $(seq 12); do echo $word $i; sleep 1; done'],
        stdin: 'tick\n',
        sandbox: { memoryMib: 256 },
      },
    ],
  });
  const typesOf = async (): Promise<readonly string[]> => {
    const [runId] = await stores.index.idsFrom('counts.');
    const types: string[] = [];
    if (runId !== undefined) for await (const { body } of stores.reader.read(runId, 0)) types.push(body.type);
    return types;
  };
  for (const limit = Date.now() + 120_000; !(await typesOf()).includes('output'); await sleep(100))
    if (Date.now() > limit) throw new Error(`the command did not start:\n${worker.words()}`);
  await worker.end('SIGKILL');
  worker = await project.startWorker([server.address]);
  const outcome = (await handle.result()) as CommandOutcome;
  expect(outcome).toMatchObject({ outcome: 'succeeded', exitCode: 0, failure: null });
  // One VM, one start, each line once.
  expect(outcome.stdout).toBe(Array.from({ length: 12 }, (_, index) => `tick ${index + 1}\n`).join(''));
  const types = await typesOf();
  expect(types.filter((type) => type === 'vm-ready')).toHaveLength(1);
  expect(types).toContain('stage-reattached');
  expect(types).toContain('vm-stopped');
});

test('a pipeline has a marker for the boot of its VM, because the worker and the bundle have the local activity', async () => {
  const handle = await runs.client.workflow.start('voidboxRun', {
    taskQueue: 'theirs',
    workflowId: 'boots',
    args: [{ spec: 'kind: workflow\nname: boots\nworkflow: { steps: [{ name: build, run: { program: "true" } }] }\n' }],
  });
  await handle.result();
  const { events } = await handle.fetchHistory();
  const summaries = (events ?? []).flatMap(({ markerRecordedEventAttributes: marker, userMetadata }) =>
    marker ? [Buffer.from(userMetadata!.summary!.data!).toString()] : [],
  );
  expect(summaries).toEqual([expect.stringMatching(/^"VM of build booted in [\d.]+ m?s"$/)]);
});
