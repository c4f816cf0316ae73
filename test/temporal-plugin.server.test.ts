/** Other people's workers, written as Temporal's docs do, with Voidbox as a plugin. Their commands are simulated. */
import { spawnSync } from 'node:child_process';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkflowFailedError, WorkflowHandle } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createEmbeddedAddress } from '../client/temporal/temporal-address.ts';
import { connectRuns, type RunsConnection } from '../client/temporal/connect.ts';
import type { CommandOutcome } from '../activities/contract-command.ts';
import { box, definePipeline } from '../sdk/index.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { openStores } from '../store/open-stores.ts';
import type { Stores } from '../store/stores.ts';
import { type PluginProject, pluginProject, type WorkerChild } from './rig/servers/plugin-project.ts';
import { temporalCliForTests } from './rig/servers/temporal-cli.ts';
import { startTestServer, type TestServer } from './rig/servers/test-server.ts';

const WORKFLOWS = `
import { executePipeline, pipelineFailure, runCommand, type CommandRequest, type Plan, type PipelineSource } from 'voidbox/temporal/workflows';
import { isCancellation, proxyActivities } from '@temporalio/workflow';
export { voidboxRun } from 'voidbox/temporal/workflows';

const { shout } = proxyActivities<{ shout(text: string): Promise<string> }>({ startToCloseTimeout: '10s' });
const direct = proxyActivities<{ runCommand(request: CommandRequest): Promise<unknown> }>({
  startToCloseTimeout: '1 minute', heartbeatTimeout: '10s',
});

export async function all(plan: Plan, text: string) {
  const run = await executePipeline(plan, { input: { text }, withText: true });
  const command = await runCommand({ program: 'cat', stdin: text });
  return { run, command, own: await shout(text) };
}
export async function pipeline(source: PipelineSource, workflowId: string) {
  try {
    return await executePipeline(source, { workflowId });
  } catch (error) {
    if (isCancellation(error)) throw error;
    return pipelineFailure(error);
  }
}
export async function command(request: CommandRequest) {
  return await runCommand(request);
}
export async function directly(request: CommandRequest) {
  return await direct.runCommand(request);
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
  activities: { shout: async (text) => text.toUpperCase() },
  plugins: [createVoidboxPlugin({ sandbox: 'mock' })],
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

function start(type: string, workflowId: string, ...args: readonly unknown[]): Promise<WorkflowHandle> {
  return runs.client.workflow.start(type, { taskQueue: 'theirs', workflowId, args: [...args] });
}

function planOf(name: string, ...command: [string, ...string[]]): unknown {
  const { plan, diagnostics } = definePipeline({ name, stages: [box('only', command)] }).compile();
  expect(diagnostics).toEqual([]);
  return plan;
}

/** The command line on the state folder of the worker. */
function voidbox(...args: readonly string[]): { readonly status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, [join(findPackageRoot(), 'bin/voidbox.js'), ...args], {
    env: { ...process.env, VOIDBOX_STATE_DIR: project.stateDir },
    encoding: 'utf8',
    timeout: 60_000,
  });
}

async function until<T>(what: string, look: () => Promise<T | null | undefined | false>, limitMs = 90_000): Promise<T> {
  for (const limit = Date.now() + limitMs; ; await sleep(50)) {
    const found = await look();
    if (found !== null && found !== undefined && found !== false) return found;
    if (Date.now() > limit) throw new Error(`${what} did not come within ${limitMs} ms:\n${worker.words()}`);
  }
}

/** Run ids of this state folder with this beginning. */
function runsOf(prefix: string): Promise<readonly string[]> {
  return stores.index.idsFrom(prefix);
}

async function typesIn(runId: string): Promise<readonly string[]> {
  const types: string[] = [];
  for await (const { body } of stores.reader.read(runId, 0)) types.push(body.type);
  return types;
}

async function stateOf(runId: string): Promise<string | null> {
  const last = await stores.events.find(runId, 'run/finished');
  return last?.body.type === 'run-finished' ? last.body.outcome.state : null;
}

test('a pipeline as a child, a command and an activity of their own', async () => {
  const handle = await start('all', 'all', planOf('copy', 'cat', '/workspace/input.json'), 'hello');
  const result = (await handle.result()) as {
    run: {
      runId: string;
      text: string;
      isTextCut: boolean;
      output: { sha256: string; sizeBytes: number; mediaType: string };
    };
    command: CommandOutcome;
    own: string;
  };
  expect(result.own).toBe('HELLO');
  expect(result.command).toMatchObject({
    outcome: 'succeeded',
    exitCode: 0,
    stdout: 'hello',
    isStdoutCut: false,
    failure: null,
  });
  expect(result.run.runId).toMatch(/^copy-\d{8}-\d{6}-[0-9a-f]{8}$/);
  const bytes: Uint8Array[] = [];
  for await (const part of stores.artifacts.open(result.run.output)) bytes.push(part);
  expect(Buffer.concat(bytes).toString()).toBe('{"text":"hello"}');
  expect(result.run).toMatchObject({ text: '{"text":"hello"}', isTextCut: false });
  // The command has a run of its own, which reads like any other.
  expect(await runsOf('all.cat.')).toEqual([result.command.runId]);
  expect(await stateOf(result.command.runId)).toBe('succeeded');
  expect(await typesIn(result.command.runId)).toEqual(
    expect.arrayContaining(['run-admitted', 'vm-ready', 'stage-started', 'stage-finished', 'vm-stopped']),
  );
});

test('what fails says why: a stage as a failure, an exit code as a result', async () => {
  const failed = await start('pipeline', 'fails', planOf('fails', 'false'), 'fails-run');
  expect(await failed.result()).toEqual({
    code: 'stage/exit-nonzero',
    message: 'stage only ended with exit code 1',
    stage: 'only',
    stderrTail: '',
  });
  const exited = await start('command', 'exits', { program: 'false' });
  expect(await exited.result()).toMatchObject({
    outcome: 'failed',
    exitCode: 1,
    failure: { code: 'stage/exit-nonzero' },
  });
  const late = await start('command', 'late', { program: 'sleep', args: ['60'], timeoutMs: 1_000 });
  expect(await late.result()).toMatchObject({ outcome: 'failed', failure: { code: 'stage/timeout' } });
  const spec = 'api_version: v1\nkind: workflow\nname: x\nworkflow: { steps: [] }\n';
  const bad = await start('pipeline', 'bad-spec', { spec }, 'bad-spec-run');
  expect(await bad.result()).toMatchObject({ code: 'admit/invalid', stage: null });
});

test.each([
  [
    'a folder that the worker does not allow',
    { program: 'true', sandbox: { mounts: [{ host: '/etc', guest: '/mnt/etc' }] } },
    'admit/mount-refused',
    'this worker allows no host folders',
  ],
  ['a key that is not known', { program: 'true', network: true }, 'admit/invalid', 'has the key "network"'],
  ['an argument that is no text', { program: 'true', args: [1] }, 'admit/invalid', '`args[0]` must be a string'],
  [
    'a snapshot by its name',
    { program: 'true', sandbox: { snapshot: 'deps' } },
    'admit/invalid',
    '`sandbox.snapshot` must be "none", it is "deps"',
  ],
  ['a range', { program: 'true', sandbox: { memoryMib: 1 } }, 'admit/invalid', 'memoryMib'],
])('a command is refused for %s, before anything runs', async (what, request, code, words) => {
  const id = `refused ${what}`;
  const error: unknown = await (await start('command', id, request)).result().catch((thrown: unknown) => thrown);
  const cause = (error as WorkflowFailedError).cause?.cause;
  expect(cause).toMatchObject({ type: code, message: expect.stringContaining(words) });
  expect(await runsOf(id.replaceAll(/[^a-z]+/g, '-'))).toEqual([]);
});

test('output above 2 KiB is cut in the result, and the store has all of it', async () => {
  const text = 'ä'.repeat(2_000);
  const handle = await start('command', 'long', { program: 'cat', stdin: text });
  const result = (await handle.result()) as CommandOutcome;
  expect(result).toMatchObject({ isStdoutCut: true, stdout: 'ä'.repeat(1_024), output: { sizeBytes: 4_000 } });
});

test('a command with `snapshot: none` has it in its plan', async () => {
  const request = { program: 'true', sandbox: { snapshot: 'none' } };
  const { runId } = (await (await start('command', 'boots', request)).result()) as CommandOutcome;
  expect(await stores.records.get(runId, 'plan')).toMatchObject({ scopes: [{ sandbox: { start: 'cold' } }] });
});

test('an activity that is called without a place runs as well', async () => {
  const handle = await start('directly', 'direct', { program: 'echo', args: ['hi'] });
  expect(await handle.result()).toMatchObject({ outcome: 'succeeded', stdout: 'hi\n' });
});

describe('while something runs', () => {
  test('a cancelled parent ends its pipeline and its command', async () => {
    const pipeline = await start('pipeline', 'cancel-pipeline', planOf('naps', 'sleep', '600'), 'cancelled-run');
    const command = await start('command', 'cancel-command', { program: 'sleep', args: ['600'] });
    await until(
      'the stage',
      async () =>
        (await runsOf('cancelled-run')).length === 1 && (await typesIn('cancelled-run')).includes('stage-started'),
    );
    const [commandRun = ''] = await until('the command', async () => {
      const found = await runsOf('cancel-command.');
      return found.length > 0 && (await typesIn(found[0]!)).includes('stage-started') && found;
    });
    // The command line shows the command as a run, and names its workflow.
    expect(voidbox('status', commandRun, '--json').stdout).toContain('"state":"running"');
    const refused = voidbox('cancel', commandRun);
    expect(refused.status).toBe(2);
    expect(refused.stderr).toContain('is a command of the workflow cancel-command: only that workflow can cancel it');
    expect(refused.stderr).toContain('temporal workflow cancel --workflow-id cancel-command');
    await pipeline.cancel();
    await command.cancel();
    for (const handle of [pipeline, command])
      await expect(handle.result()).rejects.toMatchObject({ cause: { name: 'CancelledFailure' } });
    expect(await stateOf('cancelled-run')).toBe('cancelled');
    expect(await stateOf(commandRun)).toBe('cancelled');
    expect(await typesIn(commandRun)).toContain('vm-stopped');
    const again = voidbox('retry', commandRun);
    expect(again.status).toBe(2);
    expect(again.stderr).toContain('is a command of the workflow cancel-command: only that workflow can repeat it');
  });

  test('a terminated parent leaves nothing that runs', async () => {
    const pipeline = await start('pipeline', 'end-pipeline', planOf('naps', 'sleep', '600'), 'orphan-run');
    const command = await start('command', 'end-command', { program: 'sleep', args: ['600'] });
    const [commandRun = ''] = await until('the command', async () => {
      const found = await runsOf('end-command.');
      return found.length > 0 && (await typesIn(found[0]!)).includes('stage-started') && found;
    });
    await until(
      'the stage',
      async () => (await runsOf('orphan-run')).length === 1 && (await typesIn('orphan-run')).includes('stage-started'),
    );
    await pipeline.terminate('by the test');
    await command.terminate('by the test');
    expect(await until('the end of the pipeline', () => stateOf('orphan-run'))).toBe('cancelled');
    // The worker checks every 20 s.
    expect(await until('the end of the command', () => stateOf(commandRun), 60_000)).toBe('terminated');
    const end = await stores.events.find(commandRun, 'run/finished');
    expect(end?.body).toMatchObject({
      outcome: { failure: { message: 'the workflow end-command no longer waits for it' } },
    });
  });

  test('after a worker is killed, the next worker continues its work', async () => {
    const pipeline = await start('pipeline', 'kill-pipeline', planOf('naps', 'sleep', '8'), 'killed-run');
    const command = await start('command', 'kill-command', { program: 'sleep', args: ['8'] });
    const [commandRun = ''] = await until('the command', async () => {
      const found = await runsOf('kill-command.');
      return found.length > 0 && (await typesIn(found[0]!)).includes('stage-started') && found;
    });
    await until(
      'the stage',
      async () => (await runsOf('killed-run')).length === 1 && (await typesIn('killed-run')).includes('stage-started'),
    );
    await worker.end('SIGKILL');
    worker = await project.startWorker([server.address]);
    expect(await pipeline.result()).toMatchObject({ runId: 'killed-run' });
    expect(await command.result()).toMatchObject({ runId: commandRun, outcome: 'succeeded' });
    for (const runId of ['killed-run', commandRun]) {
      const types = await typesIn(runId);
      expect(types).toEqual(expect.arrayContaining(['run-resumed', 'stage-reattached']));
      expect(types.filter((type) => type === 'run-finished')).toHaveLength(1);
    }
    expect(await runsOf('kill-command.')).toEqual([commandRun]);
  });

  test('SIGTERM ends a worker in order, and its successor continues the work', async () => {
    const command = await start('command', 'term-command', { program: 'sleep', args: ['5'] });
    await until('the command', async () => {
      const found = await runsOf('term-command.');
      return found.length > 0 && (await typesIn(found[0]!)).includes('stage-started');
    });
    await worker.end('SIGTERM');
    expect(worker.words()).not.toContain('ERROR');
    worker = await project.startWorker([server.address]);
    expect(await command.result()).toMatchObject({ outcome: 'succeeded' });
  });
});

test('the example', async () => {
  const files = join(findPackageRoot(), 'examples/temporal-worker');
  const example = pluginProject({});
  try {
    cpSync(files, example.folder, { recursive: true });
    await example.startWorker([server.address, '--mock']);
    const { stdout, stderr } = spawnSync(process.execPath, ['start.mjs', server.address, 'good news'], {
      cwd: example.folder,
      encoding: 'utf8',
      timeout: 60_000,
    });
    expect(stderr).toBe('');
    expect(stdout).toMatch(/^published: GOOD NEWS \(build-\d{8}-\d{6}-[0-9a-f]{8}\)\n$/);
  } finally {
    await example.remove();
  }
});
