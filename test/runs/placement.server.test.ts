/** A run whose admission names other queues for leases and for the store, and whose shared VMs are on another host. */
import { NativeConnection, Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Activities, Placement } from '../../activities/contract.ts';
import { createActivities } from '../../activities/create-activities.ts';
import { awaitOutcome, startRun } from '../../client/runs/runs.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { RunOutcome } from '../../domain/run/event.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { recordHistoriesOf } from '../rig/runs/record-histories.ts';
import { temporalCliForTests } from '../rig/servers/temporal-cli.ts';
import { startTestStack, type TestStack } from '../rig/servers/test-worker.ts';
import { hostTaskQueue, RUN_TASK_QUEUE } from '../../workflows/messages.ts';

const OWNER: Placement = {
  hostId: 'owner',
  hostQueue: hostTaskQueue('owner'),
  storeQueue: 'voidbox-store',
  leaseQueue: 'voidbox-leases',
};
const OTHER: Placement = { hostId: 'other', hostQueue: hostTaskQueue('other') };

let failures = 0;
const backend = createMockBackend({
  programs: { once: async () => ((failures += 1) === 1 ? 3 : 0) },
});
let stack: TestStack;
let workers: readonly Worker[];
let ended: Promise<unknown>;
let connection: NativeConnection;
/** False: the host that accepts calls for VMs has no VM to give. */
let canLaunch = true;

/** Each queue has a worker only for the calls that belong there: a call on another queue is never done. */
beforeAll(async () => {
  stack = await startTestStack(backend, await temporalCliForTests(), () => undefined);
  const { deps, target, bundle } = stack;
  const owner = createActivities({ ...deps, placement: OWNER });
  const other = createActivities({
    ...deps,
    placement: OTHER,
    backendFor: () => {
      if (canLaunch) return backend;
      throw new CodedError('host/not-ready', 'no QEMU on this host');
    },
  });
  connection = await NativeConnection.connect({ address: target.address });
  const worker = (taskQueue: string, activities: Partial<Activities>): Promise<Worker> =>
    Worker.create({ connection, namespace: target.namespace, taskQueue, activities, shutdownGraceTime: 0 });
  workers = [
    await Worker.create({
      connection,
      namespace: target.namespace,
      taskQueue: RUN_TASK_QUEUE,
      workflowBundle: bundle,
      activities: { admit: owner.admit },
    }),
    await worker(OWNER.hostQueue, { runStage: owner.runStage, releaseVm: owner.releaseVm }),
    await worker('voidbox-store', { appendEvents: owner.appendEvents, finishRun: owner.finishRun }),
    await worker('voidbox-leases', { acquireVm: other.acquireVm, releaseVm: other.releaseVm }),
    await worker(OTHER.hostQueue, { runStage: other.runStage, releaseVm: other.releaseVm }),
  ];
  ended = Promise.all(workers.map((each) => each.run()));
});

afterAll(async () => {
  await recordHistoriesOf(stack.runs.client, ['placed', 'not-placed']);
  for (const each of workers ?? []) each.shutdown();
  await ended;
  await connection?.close();
  await stack?.stop();
});

async function run(runId: string, steps: string): Promise<RunOutcome> {
  const spec = `kind: workflow\nname: placed\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  output_step: join\n  steps:\n${steps}`;
  await startRun(stack.runs.client, { runId, request: { spec }, summary: runId });
  return awaitOutcome(stack.runs.client, runId);
}

/** `activity -> queue`, once each, in the order of the history. */
async function routes(runId: string): Promise<readonly string[]> {
  const { events } = await stack.runs.client.workflow.getHandle(runId).fetchHistory();
  const all = (events ?? []).flatMap(({ activityTaskScheduledEventAttributes: asked }) =>
    asked?.activityType?.name === undefined ? [] : [`${asked.activityType!.name} -> ${asked.taskQueue!.name}`],
  );
  return [...new Set(all)];
}

test(
  'each activity goes to the queue that admission and lease name, and the run succeeds',
  { timeout: 60_000 },
  async () => {
    const outcome = await run(
      'placed',
      `
    - { name: say, run: { program: printf, args: [hello] } }
    - { name: flaky, run: { program: once }, retry: { max_attempts: 2, backoff_secs: 1 }, depends_on: [say] }
    - { name: alone, run: { program: printf, args: [x] }, sandbox: { mode: mock, vcpus: 2 }, depends_on: [flaky] }
    - { name: join, run: { program: tr, args: [a-z, A-Z], stdin_from: say }, depends_on: [alone] }
`,
    );
    expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
    expect(await stack.artifact(outcome.output!)).toBe('HELLO');
    expect(await routes('placed')).toEqual([
      'admit -> voidbox',
      'acquireVm -> voidbox-leases',
      'runStage -> voidbox-host:other',
      'appendEvents -> voidbox-store',
      'runStage -> voidbox-host:owner',
      'releaseVm -> voidbox-host:other',
      'finishRun -> voidbox-store',
    ]);
    expect(backend.alive()).toEqual([]);
  },
);

test('the release of a VM whose lease never came goes where it was asked for', { timeout: 300_000 }, async () => {
  canLaunch = false;
  const outcome = await run(
    'not-placed',
    `
    - { name: say, run: { program: printf, args: [hello] } }
    - { name: join, run: { program: tr, args: [a-z, A-Z], stdin_from: say }, depends_on: [say] }
`,
  );
  expect(outcome).toMatchObject({ state: 'failed', failure: { code: 'host/not-ready' } });
  expect(await routes('not-placed')).toEqual([
    'admit -> voidbox',
    'acquireVm -> voidbox-leases',
    'releaseVm -> voidbox-leases',
    'appendEvents -> voidbox-store',
    'finishRun -> voidbox-store',
  ]);
});
