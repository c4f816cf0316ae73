/** Runs with ids that Temporal makes, and runs whose files are damaged while they run, through a real server. */
import { cpSync, mkdirSync, readFileSync, readdirSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { WorkflowFailedError } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseVmKey } from '../../domain/run/vm-key.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import type { MockProgram } from '../../sandbox/mock/programs.ts';
import { openStores } from '../../store/open-stores.ts';
import { typeCommand, type Typed } from '../rig/runs/typed-command.ts';
import { awaitOutcome, describeRun, startRun } from '../../client/runs/runs.ts';
import { cleanUp } from '../../workers/host/janitor.ts';
import { createOpenRuns } from '../../workers/host/open-runs.ts';
import { temporalCliForTests } from '../rig/servers/temporal-cli.ts';
import { startTestStack, type TestStack } from '../rig/servers/test-worker.ts';
import type { RunningWorkers } from '../../workers/workers.ts';

/** How long a run may take to end once its files are damaged: retries of activities take longer. */
const END_LIMIT_MS = 30_000;

/** The code of gRPC. */
const INVALID_ARGUMENT = 3;

const programs: Record<string, MockProgram> = {
  /** `lines N MS`: N numbered lines, one each MS. */
  lines: async ({ args, killed, write }) => {
    for (let line = 1; line <= Number(args[0]); line += 1) {
      await sleep(Number(args[1]), undefined, { signal: killed });
      await write('stdout', `line ${line}\n`);
    }
    return 0;
  },
};

const backend = createMockBackend({ programs });
let stack: TestStack;
let worker: RunningWorkers;

beforeAll(async () => {
  stack = await startTestStack(backend, await temporalCliForTests(), () => undefined);
  worker = await stack.startWorker();
});
afterAll(async () => {
  worker?.shutdown();
  await worker?.ended;
  await worker?.close();
  await stack?.stop();
});

const spec = (args: string): string =>
  `api_version: v1\nkind: workflow\nname: talk\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  steps:\n    - { name: talk, run: { program: lines, args: ${args} } }\n`;

/** The command line against this server and this state folder. */
function type(...argv: readonly string[]): Promise<Typed> {
  const variables = { HOME: stack.stateDir, VOIDBOX_STATE_DIR: stack.stateDir, TEMPORAL_ADDRESS: stack.target.address };
  return typeCommand(argv, stack.stateDir, variables);
}

async function started(runId: string, args = '["600", "50"]'): Promise<void> {
  await startRun(stack.runs.client, { runId, request: { spec: spec(args) }, summary: runId });
  await untilOutput(runId);
}

async function untilOutput(runId: string): Promise<void> {
  await expect
    .poll(async () => (await stack.eventsOf(runId)).some(({ body }) => body.type === 'output'), {
      timeout: 30_000,
      interval: 100,
    })
    .toBe(true);
}

function fileOf(runId: string, name: string): string {
  return join(stack.stateDir, 'runs', runId, name);
}

async function janitorRound(): Promise<void> {
  const { events, index, records, hostVariables, close } = await openStores(stack);
  const { hostId } = stack.deps.placement;
  await cleanUp({
    client: stack.runs.client,
    openRuns: createOpenRuns({ events, index, records, serverId: 'embedded', hostId, log: () => undefined }),
    records,
    hostVariables,
    serverId: 'embedded',
    hostId,
    log: () => undefined,
    listVms: async () =>
      backend.alive().flatMap((text) => {
        const key = parseVmKey(text);
        return key === null ? [] : [{ key, alive: true, need: { memoryMib: 0, vcpus: 0, diskMib: 0 } }];
      }),
    release: (key) => backend.release(key),
    endSessions: async () => [],
    dropMounts: (runId) => stack.deps.mounts.dropRun(runId),
  });
  await close();
}

describe('a Temporal Schedule', () => {
  test('starts runs that are listed, shown and cancelled by their ids', async () => {
    const workflowId = `nightly "it's" 50%/é`;
    const schedule = await stack.runs.client.schedule.create({
      scheduleId: 'nightly',
      spec: {},
      action: {
        type: 'startWorkflow',
        workflowType: 'voidboxRun',
        workflowId,
        taskQueue: 'voidbox',
        args: [{ spec: spec('["600", "50"]') }],
      },
    });
    await schedule.trigger();
    const known = (): Promise<readonly string[]> => stack.stores.index.idsFrom(workflowId);
    await expect.poll(known, { timeout: 30_000, interval: 200 }).toHaveLength(1);
    const [runId = ''] = await known();
    expect(runId).toMatch(/-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    await untilOutput(runId);
    const listed = JSON.parse((await type('runs', '--json')).stdout) as { runs: { runId: string; state: string }[] };
    expect(listed.runs).toContainEqual(expect.objectContaining({ runId, state: 'running' }));
    expect((await type('runs')).stdout).toContain(runId);
    // The beginning of the id is enough.
    expect((await type('status', 'nightly')).stdout).toContain(runId);
    expect(JSON.parse((await type('cancel', runId, '--json')).stdout)).toEqual({
      runId,
      state: 'cancelled',
      wasRunning: true,
    });
    expect((await type('logs', runId)).stdout).toContain('line 1');
    expect(backend.alive()).toEqual([]);
    await schedule.delete();
  });

  test('and an id of 1,000 bytes runs to its end; one more byte is Temporal’s own limit', async () => {
    const runId = `${'é/'.repeat(333)}x`;
    expect(Buffer.byteLength(runId)).toBe(1_000);
    await startRun(stack.runs.client, { runId, request: { spec: spec('["2", "1"]') }, summary: 'long' });
    expect((await awaitOutcome(stack.runs.client, runId)).state).toBe('succeeded');
    expect((await type('logs', runId)).stdout).toContain('line 2');
    expect(readdirSync(join(stack.stateDir, 'runs')).some((name) => name.startsWith('%long-'))).toBe(true);
    await expect(
      startRun(stack.runs.client, { runId: `${runId}y`, request: { spec: '' }, summary: 'longer' }),
    ).rejects.toHaveProperty('cause.code', INVALID_ARGUMENT);
  });
});

test('a run that an operator ended is found under its state by the first who asks', { timeout: 300_000 }, async () => {
  await started('ended-outside');
  await stack.runs.client.workflow.getHandle('ended-outside').terminate('test');
  const idsIn = async (state: string): Promise<readonly string[]> => {
    const { runs } = JSON.parse((await type('runs', '--state', state, '--json')).stdout) as {
      runs: { runId: string }[];
    };
    return runs.map(({ runId }) => runId);
  };
  expect(await idsIn('terminated')).toEqual(['ended-outside']);
  expect(await idsIn('running')).not.toContain('ended-outside');
  await janitorRound();
});

describe('a run whose files are damaged while it runs', () => {
  test.each<[string, (runId: string) => void]>([
    ['lines-swapped', swapLines],
    ['log-cut', (runId) => truncateSync(fileOf(runId, 'events.jsonl'), 40)],
    ['admission-garbage', (runId) => writeFileSync(fileOf(runId, 'records/admission.json'), '{"half')],
  ])(
    'ends with a reason, and no other run hears of it: %s',
    async (runId, hurt) => {
      const other = `beside-${runId}`;
      // The damaged run starts last: on a busy machine it would have ended before the other has begun.
      await started(other, '["100", "50"]');
      await started(runId, '["40", "50"]');
      hurt(runId);
      const end = await stack.runs.client.workflow
        .getHandle(runId)
        .result()
        .then(
          () => null,
          (error: unknown) => error,
        );
      expect(end).toBeInstanceOf(WorkflowFailedError);
      expect(await awaitOutcome(stack.runs.client, runId)).toMatchObject({
        state: 'failed',
        failure: { code: 'store/damaged', message: expect.stringContaining(runId) },
      });
      await janitorRound();
      expect(backend.alive().filter((key) => key.startsWith(`${runId}/`))).toEqual([]);
      expect((await awaitOutcome(stack.runs.client, other)).state).toBe('succeeded');
      const listed = async (id: string): Promise<unknown> => {
        const { runs } = JSON.parse((await type('runs', '--json')).stdout) as {
          runs: { runId: string; state: string; damage: string | null }[];
        };
        return runs.find((run) => run.runId === id);
      };
      // For some seconds, a log without a first event counts as a run that begins.
      await expect
        .poll(() => listed(runId), { timeout: 15_000, interval: 500 })
        .toMatchObject({ state: 'damaged', damage: expect.stringContaining(runId) });
      expect(await listed(other)).toMatchObject({ state: 'succeeded', damage: null });
    },
    END_LIMIT_MS,
  );

  test('is not followed for ever', async () => {
    await started('followed', '["40", "50"]');
    const following = type('logs', '-f', 'followed');
    truncateSync(fileOf('followed', 'events.jsonl'), 40);
    const { code, stderr } = await following;
    expect(stderr).toContain('store/damaged');
    expect(code).toBe(3);
  });

  test('is set aside, and its workflow ends instead of beginning from nothing', async () => {
    await started('aside', '["40", "50"]');
    swapLines('aside');
    expect((await type('set-aside', 'aside')).stdout).toContain(join(stack.stateDir, 'damaged', 'aside'));
    expect((await awaitOutcome(stack.runs.client, 'aside')).failure?.code).toBe('store/damaged');
    expect(readdirSync(join(stack.stateDir, 'runs'))).not.toContain('aside');
    expect((await describeRun(stack.runs.client, 'aside')).state).toBe('failed');
    await janitorRound();
    expect(backend.alive().filter((key) => key.startsWith('aside/'))).toEqual([]);
  });
});

test('set-aside --all does not touch a run without an event while the server reports that it runs', async () => {
  const runId = 'beginning';
  await started('begun', '["2", "1"]');
  // A worker has admitted it and found no room for its first event.
  const handle = await stack.runs.client.workflow.start('voidboxRun', {
    workflowId: runId,
    taskQueue: 'nowhere',
    args: [{ spec: '' }],
  });
  mkdirSync(fileOf(runId, 'records'), { recursive: true });
  cpSync(fileOf('begun', 'records/admission.json'), fileOf(runId, 'records/admission.json'));
  utimesSync(fileOf(runId, 'records/admission.json'), 1_000_000_000, 1_000_000_000);
  const sorted = async (): Promise<unknown> =>
    JSON.parse((await type('set-aside', '--all', '--dry-run', '--json')).stdout) as unknown;
  expect(await sorted()).toMatchObject({
    runs: expect.not.arrayContaining([expect.objectContaining({ runId })]) as unknown,
    left: [{ runId, reason: expect.stringContaining('the server says that it is running') as string }],
  });
  await handle.terminate('test');
  expect(await sorted()).toMatchObject({
    runs: expect.arrayContaining([expect.objectContaining({ runId })]) as unknown,
    left: [],
  });
});

function swapLines(runId: string): void {
  const path = fileOf(runId, 'events.jsonl');
  const [first = '', second = '', ...rest] = readFileSync(path, 'utf8').split('\n');
  writeFileSync(path, [second, first, ...rest].join('\n'));
}
