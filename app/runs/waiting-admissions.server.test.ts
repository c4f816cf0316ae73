/** `voidbox runs` with a server that has runs which no worker has admitted. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Activities } from '../../activities/contract.ts';
import { describeRun, startRun } from '../../client/runs/runs.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { temporalCliForTests } from '../../test/rig/servers/temporal-cli.ts';
import { startTestStack, type TestStack } from '../../test/rig/servers/test-worker.ts';
import { type Typed, typeCommand } from '../../test/rig/runs/typed-command.ts';
import type { RunningWorkers } from '../../workers/workers.ts';
import type { AdmittingJson } from '../../cli/render/runs/waiting-admissions.ts';

const SPEC =
  'api_version: v1\nkind: workflow\nname: naps\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  steps:\n    - { name: nap, wait: { for: 10m } }\n';
const NAMESPACE = 'without-attributes';

let stack: TestStack;
let dir: string;
let worker: RunningWorkers | null = null;
const open: string[] = [];

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-admissions-'));
  stack = await startTestStack(createMockBackend(), await temporalCliForTests(), () => undefined, [
    '--namespace',
    NAMESPACE,
  ]);
}, 300_000);
afterAll(async () => {
  await stack?.stop();
  rmSync(dir, { recursive: true, force: true });
});

let runId: string;
beforeEach(async ({ task }) => {
  runId = `run-${task.id}`;
  await startRun(stack.runs.client, { runId, request: { spec: SPEC }, summary: 'test' });
  open.push(runId);
});
afterEach(async () => {
  worker?.shutdown();
  await worker?.ended;
  await worker?.close();
  worker = null;
  for (const id of open.splice(0)) await stack.runs.client.workflow.getHandle(id).terminate();
});

async function startWorker(admit: (admit: Activities['admit']) => Activities['admit']): Promise<void> {
  worker = await stack.startWorker((activities) => ({ admit: admit(activities.admit) }));
}

async function list(options: readonly string[] = [], more: NodeJS.ProcessEnv = {}): Promise<Typed> {
  const variables = {
    HOME: dir,
    VOIDBOX_STATE_DIR: join(dir, 'state'),
    TEMPORAL_ADDRESS: stack.target.address,
    ...more,
  };
  return await typeCommand(['runs', ...options], dir, variables);
}

interface Listed {
  readonly runs: readonly { readonly runId: string }[];
  readonly admitting: { readonly runs: readonly AdmittingJson[]; readonly hasMore: boolean } | null;
}

async function listed(options: readonly string[] = [], more: NodeJS.ProcessEnv = {}): Promise<Listed> {
  // A list asks for some seconds only, and a busy machine may need longer.
  const isLate = ({ stderr }: Typed): boolean => /time was over|answer within|Deadline exceeded/.test(stderr);
  let answer = await list(['--json', ...options], more);
  for (let tries = 1; tries < 3 && isLate(answer); tries += 1) answer = await list(['--json', ...options], more);
  const { code, stdout, stderr } = answer;
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as Listed;
}

/** The server lists a run some time after its start. */
async function waitingRun(
  matches: (run: AdmittingJson) => boolean,
  more: NodeJS.ProcessEnv = {},
): Promise<AdmittingJson> {
  for (const end = Date.now() + 30_000; ; await sleep(50)) {
    const { admitting } = await listed([], more);
    const found = admitting?.runs.find((run) => run.runId === runId);
    if (found !== undefined && matches(found)) return found;
    if (Date.now() > end) throw new Error(`${runId} is listed as ${JSON.stringify(admitting)}`);
  }
}

test('a run without a worker is listed with the task queue and the command that starts a worker', async () => {
  expect(await waitingRun(() => true)).toMatchObject({
    reason: 'no-worker',
    taskQueue: 'voidbox',
    attempt: 1,
    triedAt: null,
    nextAt: null,
    lastPollAt: null,
    failure: null,
  });
  const { code, stdout, stderr } = await list();
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(
    new RegExp(`^WAITS FOR ADMISSION +STARTED\\n${runId} +\\d+s ago +no worker polls task queue voidbox\\n`),
  );
  expect(stdout).toContain('on each host that runs VMs: voidbox worker\n');
  expect(stdout).not.toContain('No runs yet');
});

test('options that ask for other runs leave out runs that wait for admission', async () => {
  await waitingRun(() => true);
  for (const options of [['--waiting'], ['--state', 'failed'], ['--name', 'naps']])
    expect((await listed(options)).admitting, options.join(' ')).toBeNull();
  // The server may still list the run of the test before, which is terminated.
  expect((await listed(['--state', 'running', '--since', '1h'])).admitting?.runs.map((run) => run.runId)).toContain(
    runId,
  );
  const later = new Date(Date.now() + 60_000).toISOString();
  expect((await listed(['--since', later])).admitting?.runs).toEqual([]);
});

test('a run whose admission runs has the time since its start, and is an ordinary run after its end', async () => {
  let admitIt: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => (admitIt = resolve));
  await startWorker((admit) => async (call) => {
    await gate;
    return await admit(call);
  });
  const { triedAt, failure } = await waitingRun(({ reason }) => reason === 'admitting');
  expect(Date.now() - Date.parse(triedAt!)).toBeLessThan(30_000);
  expect(failure).toBeNull();
  expect((await list()).stdout).toMatch(new RegExp(`^${runId} .* admission has been running for [\\d.]+ m?s$`, 'm'));
  admitIt();
  for (
    const end = Date.now() + 20_000;
    (await stack.eventsOf(runId)).length === 0 && Date.now() < end;
    await sleep(50)
  );
  // On the host of the worker it is in the table, on another host in no list.
  for (const end = Date.now() + 20_000; ; await sleep(50)) {
    if ((await listed()).admitting?.runs.length === 0 || Date.now() > end) break;
  }
  expect(await listed()).toEqual({ runs: [], hasMore: false, admitting: { runs: [], hasMore: false }, asking: null });
  const here = await listed([], { VOIDBOX_STATE_DIR: stack.stateDir });
  expect(here.admitting?.runs).toEqual([]);
  expect(here.runs.map((run) => run.runId)).toContain(runId);
  expect((await describeRun(stack.runs.client, runId)).state).toBe('running');
});

test('a run whose admission fails has the count, the next try and a message that moves no cursor', async () => {
  await startWorker(() => () => Promise.reject(new Error(`\u001b[2Jno room\u0007\n${'x'.repeat(1_000)}`)));
  const { attempt, nextAt, failure } = await waitingRun(({ reason, attempt }) => reason === 'retrying' && attempt > 3);
  expect(attempt).toBeGreaterThan(3);
  expect(Date.parse(nextAt!)).toBeGreaterThan(Date.now() - 20_000);
  expect(failure?.message).toMatch(/^no room␇␊x+$/);
  expect(failure?.message.length).toBeLessThanOrEqual(400);
  await waitingRun(({ reason }) => reason === 'retrying');
  const { stdout } = await list();
  expect(stdout).toMatch(
    new RegExp(
      `^${runId} .* admission failed (?:once|twice|\\d+ times), next try in [\\d.]+ m?s\\n  no room␇␊x+ \\(Error\\)$`,
      'm',
    ),
  );
  expect(stdout).not.toContain('\u001b');
});

test('a failure of nearly 1 MiB is shown as one short line, and no character of it is cut in half', async () => {
  const message = `1${'😀'.repeat(240_000)}`;
  await startWorker(() => () => Promise.reject(ApplicationFailure.create({ message, type: 'host/disk-full' })));
  const { failure } = await waitingRun(({ reason, attempt }) => reason === 'retrying' && attempt > 2);
  expect(failure?.message).toMatch(/^1😀{199}$/u);
  expect(failure?.code).toBe('host/disk-full');
  await waitingRun(({ reason }) => reason === 'retrying');
  const { stdout } = await list();
  expect(stdout).toMatch(/^ {2}1😀{199} \(host\/disk-full\)$/mu);
  expect(stdout.length).toBeLessThan(1_500);
});

test('a run that is refused with a message of nearly 1 MiB is one line, and its message is bounded', async () => {
  const refused = `${runId}-refused`;
  const request = { spec: SPEC, params: { a: { b: '😀'.repeat(240_000) } } } as never;
  await startRun(stack.runs.client, { runId: refused, request, summary: 'test' });
  await startWorker((admit) => admit);
  const ended = stack.runs.client.workflow.getHandle(refused).result();
  await expect(ended).rejects.toMatchObject({ cause: { type: 'admit/invalid' } });
  const here = { VOIDBOX_STATE_DIR: stack.stateDir };
  const { stdout } = await list([], here);
  expect(stdout).toMatch(new RegExp(`^${refused} +failed .* admit/invalid$`, 'm'));
  expect(stdout.split('\n').every((line) => line.length < 200)).toBe(true);
  const { runs } = (await listed([], here)) as unknown as {
    readonly runs: readonly { readonly runId: string; readonly failure: { readonly message: string } | null }[];
  };
  const message = runs.find((run) => run.runId === refused)?.failure?.message;
  expect(message).toMatch(/^the param a must be a string, it is \{"b":"😀/u);
  expect(message!.length).toBeLessThanOrEqual(20_000);
});

test('a server without our search attributes lists the run too', async () => {
  const client = new Client({ connection: stack.runs.connection, namespace: NAMESPACE });
  const more = { TEMPORAL_NAMESPACE: NAMESPACE };
  await startRun(client, { runId, request: { spec: SPEC }, summary: 'test' });
  expect(await waitingRun(() => true, more)).toMatchObject({ reason: 'no-worker' });
  await client.workflow.getHandle(runId).terminate();
});

test('a server that is away or has no such namespace costs a warning', async () => {
  for (const more of [{ TEMPORAL_ADDRESS: '127.0.0.1:1' }, { TEMPORAL_NAMESPACE: 'nope' }]) {
    const { code, stdout, stderr } = await list(['--json'], more);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: '{"runs":[],"hasMore":false,"admitting":null,"asking":null}\n',
    });
    expect(stderr).toMatch(/^warning: .*; the list shows what this host recorded\n$/);
  }
});
