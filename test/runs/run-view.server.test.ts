/** The query `view` of a run, by clients that know nothing of Voidbox: before, while and after it runs. */
import { execFile } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { awaitOutcome, startRun } from '../../client/runs/runs.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { TemporaryFolder } from '../rig/skills/skill-command.ts';
import { temporalCliForTests } from '../rig/servers/temporal-cli.ts';
import { startTestStack, type TestStack } from '../rig/servers/test-worker.ts';
import type { RunStatus, ViewRequest } from '../../workflows/run/run-status.ts';
import type { RunningWorkers } from '../../workers/workers.ts';

let letAdmit: () => void = () => undefined;
let letGo: () => void = () => undefined;
/** Made before anything runs: a stage counts as running before its program does. */
const isLetGo = new Promise<void>((resolve) => (letGo = resolve));
const backend = createMockBackend({
  programs: {
    hold: async ({ killed }) => {
      await Promise.race([isLetGo, sleep(60_000, undefined, { signal: killed })]);
      return 0;
    },
  },
});
let temporalCli: string;
let stack: TestStack;
let worker: RunningWorkers | null = null;

beforeAll(async () => {
  temporalCli = await temporalCliForTests();
  stack = await startTestStack(backend, temporalCli, () => undefined);
}, 300_000);

afterAll(async () => {
  await stopWorker();
  await stack?.stop();
});

async function stopWorker(): Promise<void> {
  worker?.shutdown();
  await worker?.ended;
  await worker?.close();
  worker = null;
}

const spec = `kind: workflow
name: viewed
sandbox: { mode: mock, isolation: none }
workflow:
  steps:
    - { name: say, run: { program: printf, args: [hello] } }
    - { name: wait, run: { program: hold }, depends_on: [say] }
    - { name: shout, run: { program: tr, args: [a-z, A-Z], stdin_from: say }, depends_on: [wait] }
`;

const view = (runId: string, ...asked: readonly ViewRequest[]): Promise<RunStatus> =>
  stack.runs.client.workflow.getHandle(runId).query<RunStatus, ViewRequest[]>('view', ...asked);

async function viewWhen(runId: string, holds: (status: RunStatus) => boolean): Promise<RunStatus> {
  for (const end = Date.now() + 20_000; Date.now() < end; await sleep(50)) {
    const status = await view(runId);
    if (holds(status)) return status;
  }
  throw new Error(`the run came to ${JSON.stringify(await view(runId))}`);
}

test(
  'the view of a run shows its state, from before its admission to after its end',
  { timeout: 300_000 },
  async () => {
    const admitted = new Promise<void>((resolve) => (letAdmit = resolve));
    worker = await stack.startWorker(({ admit }) => ({ admit: (request) => admitted.then(() => admit(request)) }));
    await startRun(stack.runs.client, { runId: 'viewed', request: { spec }, summary: 'test' });
    expect(await view('viewed')).toEqual({
      version: 1,
      runId: 'viewed',
      state: 'admitting',
      ending: false,
      name: null,
      host: null,
      stages: [],
      failedStage: null,
      failure: null,
      output: null,
      origin: null,
      mocked: [],
      tolerated: [],
      leftOut: { outputs: 0 },
    });
    letAdmit();
    const running = await viewWhen('viewed', ({ stages }) => stages[1]?.state === 'running');
    const hello = expect.objectContaining({ sizeBytes: 5, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) as string });
    expect(running).toMatchObject({
      state: 'running',
      name: 'viewed',
      host: 'test-host',
      stages: [
        { id: 'say', state: 'succeeded', attempt: 1, output: hello },
        { id: 'wait', state: 'running', attempt: 1 },
        { id: 'shout', state: 'waiting', attempt: 0 },
      ],
    });
    letGo();
    const outcome = await awaitOutcome(stack.runs.client, 'viewed');
    const ended = await view('viewed', { stages: ['shout'] });
    expect(ended).toMatchObject({
      state: 'succeeded',
      stages: [{ id: 'shout', state: 'succeeded', output: outcome.output }],
      output: outcome.output,
    });
    expect(await stack.artifact(ended.output!)).toBe('HELLO');
    // The run waited for its admission: its events name the start that the server knows, too.
    const { startTime } = await stack.runs.client.workflow.getHandle('viewed').describe();
    const [first] = await stack.eventsOf('viewed');
    expect(first?.body).toMatchObject({ type: 'run-admitted', startedAtMs: startTime.getTime() });
    expect(first!.atMs).toBeGreaterThan(startTime.getTime());
    await expect(view('viewed', { stages: ['none'] })).rejects.toThrow(/this run has no stage "none"/);
  },
);

test(
  'answers the temporal command line, also of a run that ended before this worker',
  { timeout: 60_000 },
  async () => {
    await stopWorker();
    worker = await stack.startWorker();
    const { stdout } = await promisify(execFile)(
      temporalCli,
      `workflow query --address ${stack.target.address} --workflow-id viewed --type view --input {"stages":["say"]} --output json`.split(
        ' ',
      ),
      { timeout: 30_000 },
    );
    expect(JSON.parse(stdout)).toMatchObject({
      queryResult: [{ runId: 'viewed', state: 'succeeded', stages: [{ id: 'say', state: 'succeeded' }] }],
    });
  },
);

test('is what the client of docs/reference/temporal.md reads', { timeout: 300_000 }, async () => {
  worker ??= await stack.startWorker();
  const build =
    'kind: workflow\nname: b\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  steps:\n    - { name: build, run: { program: printf, args: [built] } }\n';
  await startRun(stack.runs.client, { runId: 'my-run', request: { spec: build }, summary: 'test' });
  const page = readFileSync(join(findPackageRoot(), 'docs/reference/temporal.md'), 'utf8');
  const [, code = ''] = /```js\n([^]*?)```/.exec(page) ?? [];
  using folder = new TemporaryFolder();
  symlinkSync(join(findPackageRoot(), 'node_modules'), folder.file('node_modules'));
  symlinkSync(join(findPackageRoot(), 'bin/voidbox.js'), folder.file('voidbox'));
  writeFileSync(folder.file('client.mjs'), code.replace('127.0.0.1:PORT', stack.target.address));
  const { stdout } = await promisify(execFile)(process.execPath, [folder.file('client.mjs')], {
    timeout: 30_000,
    env: {
      PATH: `${folder.path}:${dirname(process.execPath)}`,
      HOME: folder.file('home'),
      VOIDBOX_STATE_DIR: stack.stateDir,
    },
  });
  expect(stdout).toMatch(/^[0-9a-f]{64} 5\nbuilt$/);
});

test('tells why a run failed, or was not admitted', { timeout: 300_000 }, async () => {
  worker ??= await stack.startWorker();
  const fails = spec.replace('program: hold', "program: 'false'");
  await startRun(stack.runs.client, { runId: 'fails', request: { spec: fails }, summary: 'test' });
  await awaitOutcome(stack.runs.client, 'fails');
  expect(await view('fails')).toMatchObject({
    state: 'failed',
    failedStage: 'wait',
    failure: { code: 'stage/exit-nonzero' },
    stages: [{ state: 'succeeded' }, { state: 'failed' }, { state: 'skipped' }],
  });
  await startRun(stack.runs.client, { runId: 'refused', request: { spec: 'kind: nothing' }, summary: 'test' });
  await awaitOutcome(stack.runs.client, 'refused');
  expect(await view('refused')).toMatchObject({ state: 'failed', failure: { code: 'admit/invalid' }, stages: [] });
});
