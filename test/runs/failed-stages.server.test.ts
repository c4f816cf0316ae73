/**
 * The failures of stages that the server, and so its UI, gets; and builds that report failures otherwise, together with
 * this one.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { RunOutcome } from '../../domain/run/event.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { awaitOutcome, startRun } from '../../client/runs/runs.ts';
import { recordHistoriesOf } from '../rig/runs/record-histories.ts';
import { temporalCliForTests } from '../rig/servers/temporal-cli.ts';
import { startTestStack, type TestStack } from '../rig/servers/test-worker.ts';
import type { RunningWorkers } from '../../workers/workers.ts';

/** How often commands of each run were started. */
const started = new Map<string, number>();
const backend = createMockBackend({
  programs: {
    /** `fail KEY TIMES`: so often, then it succeeds. */
    fail: async ({ args: [key = '', times = '9'], write }) => {
      const call = (started.get(key) ?? 0) + 1;
      started.set(key, call);
      if (call > Number(times)) return 0;
      await write('stderr', `no rule to make ${key}\n`);
      return 3;
    },
  },
});
let stack: TestStack;
let worker: RunningWorkers | null = null;

beforeAll(async () => {
  stack = await startTestStack(backend, await temporalCliForTests(), () => undefined);
}, 300_000);

afterEach(async () => {
  worker?.shutdown();
  await worker?.ended;
  await worker?.close();
  worker = null;
});

afterAll(async () => {
  await recordHistoriesOf(stack.runs.client, ['failed-activity', 'failed-activity-retried', 'failed-activity-reset']);
  await stack?.stop();
});

/** One step, and one after it. */
function spec(key: string, times: number, more = ''): string {
  return `kind: workflow\nname: fails\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  steps:\n    - { name: bad, run: { program: fail, args: [${key}, "${times}"] }${more} }\n    - { name: after, run: { program: 'true' }, depends_on: [bad] }\n`;
}

const RETRY = ', retry: { max_attempts: 2, backoff_secs: 1 }';

async function run(runId: string, text: string): Promise<RunOutcome> {
  await startRun(stack.runs.client, { runId, request: { spec: text }, summary: 'test' });
  return await awaitOutcome(stack.runs.client, runId);
}

type History = Awaited<ReturnType<ReturnType<TestStack['runs']['client']['workflow']['getHandle']>['fetchHistory']>>;
type HistoryEvent = NonNullable<History['events']>[number];

async function historyOf(runId: string): Promise<readonly HistoryEvent[]> {
  return (await stack.runs.client.workflow.getHandle(runId).fetchHistory()).events ?? [];
}

/** Returns the failures of activities. */
const failuresIn = (
  events: readonly HistoryEvent[],
): NonNullable<HistoryEvent['activityTaskFailedEventAttributes']>[] =>
  events.flatMap(({ activityTaskFailedEventAttributes: failed }) => (failed ? [failed] : []));

/** Returns all text of a history, including the text in its payloads. */
function textOf(events: readonly HistoryEvent[]): string {
  return JSON.stringify(events, (key, value: unknown) =>
    key === 'data' && typeof value === 'string' ? Buffer.from(value, 'base64').toString('utf8') : value,
  );
}

const FAILED: Partial<RunOutcome> = {
  state: 'failed',
  failedStage: 'bad',
  failure: {
    code: 'stage/exit-nonzero',
    message: 'stage bad ended with exit code 3',
    stderrTail: expect.stringContaining('no rule to make') as string,
  },
};

test('a failed stage is a failed activity, by its own code', async () => {
  worker = await stack.startWorker();
  expect(await run('failed-activity', spec('fails', 9))).toMatchObject(FAILED);
  const [failed, ...others] = failuresIn(await historyOf('failed-activity'));
  expect(others).toEqual([]);
  const { message, stackTrace, applicationFailureInfo } = failed!.failure!;
  const [detail] = applicationFailureInfo?.details?.payloads ?? [];
  expect(Buffer.from(detail!.data!).toString('utf8')).toContain('"stderrTail":"no rule to make fails\\n"');
  expect({ message, stackTrace }).toEqual({ message: 'stage bad ended with exit code 3', stackTrace: '' });
  // 1 is BENIGN: neither the worker's log nor its metrics count it.
  expect(applicationFailureInfo).toMatchObject({ type: 'stage/exit-nonzero', nonRetryable: true, category: 1 });
});

test('standard error of a failed run is only in payloads, which a codec covers', async () => {
  worker = await stack.startWorker();
  expect(await run('in-payloads', spec('in-payloads', 9))).toMatchObject(FAILED);
  const events = await historyOf('in-payloads');
  expect(textOf(events)).toContain('no rule to make in-payloads');
  const outside = JSON.stringify(events, (key, value: unknown) => (key === 'data' ? undefined : value));
  expect(outside).toContain('stage bad ended with exit code 3');
  expect(outside).not.toContain('no rule to make');
});

test('the filters of docs/reference/temporal.md find what they say', async () => {
  worker = await stack.startWorker();
  const { client } = stack.runs;
  const waiting = ', retry: { max_attempts: 2, backoff_secs: 600 }';
  await run('filter-failed', spec('filter-failed', 9));
  await run('filter-refused', 'kind: nothing');
  for (const runId of ['filter-open', 'filter-ended']) {
    await startRun(client, { runId, request: { spec: spec(runId, 9, waiting) }, summary: 'test' });
    while (!started.has(runId)) await sleep(20);
  }
  await client.workflow.getHandle('filter-ended').terminate('test');
  // The server lists the end of a run a moment after its client has the answer.
  const countEnded = async (): Promise<number> =>
    (await client.workflow.count('WorkflowId = "filter-ended" AND ExecutionStatus = "Terminated"')).count;
  await expect.poll(countEnded, { timeout: 20_000 }).toBe(1);
  const page = readFileSync(join(findPackageRoot(), 'docs/reference/temporal.md'), 'utf8');
  const filters = [...page.matchAll(/^\| .* \| `((?:Voidbox|Workflow)\w+ .+)` \|$/gm)].map(([, filter]) => filter!);
  const found = await Promise.all(
    filters.map(async (filter) => {
      const query = filter.replace('"release"', '"fails"').replace('"HOST"', '"test-host"');
      const ids = new Set<string>();
      const end = Date.now() + 20_000;
      // A filter finds runs only after a while.
      while (Date.now() < end && ![...ids].some((id) => id.startsWith('filter-'))) {
        for await (const { workflowId } of client.workflow.list({ query })) ids.add(workflowId);
        await sleep(100);
      }
      return [...ids].filter((id) => id.startsWith('filter-'));
    }),
  );
  await client.workflow.getHandle('filter-open').terminate('test');
  expect(found).toEqual([['filter-failed'], ['filter-open'], ['filter-refused'], ['filter-ended']]);
});

test('the author’s retries are the run’s', async () => {
  worker = await stack.startWorker();
  expect((await run('failed-activity-retried', spec('retries', 1, RETRY))).state).toBe('succeeded');
  const events = await historyOf('failed-activity-retried');
  expect(failuresIn(events)).toHaveLength(1);
  expect(events.map(({ activityTaskStartedEventAttributes: begun }) => begun?.attempt ?? 1)).toEqual(
    events.map(() => 1),
  );
  expect(started.get('retries')).toBe(2);
});

test('a failed run that is reset gets the same failure', async () => {
  worker = await stack.startWorker();
  // Boxes have their own VMs, so the workflow makes no other calls for a VM.
  const boxes = `    - { name: bad, run: { program: fail, args: [reset, "1"] } }\n    - { name: after, run: { program: 'true' } }\n`;
  const outcome = await run(
    'failed-activity-reset',
    `kind: pipeline\nname: fails\nsandbox: { mode: mock, isolation: none }\npipeline:\n  boxes:\n${boxes}`,
  );
  expect(outcome).toMatchObject(FAILED);
  const { namespace } = stack.runs.client.options;
  const completed = (await historyOf('failed-activity-reset')).find(
    ({ workflowTaskCompletedEventAttributes: end }) => end,
  );
  await stack.runs.client.workflowService.resetWorkflowExecution({
    namespace,
    workflowExecution: { workflowId: 'failed-activity-reset' },
    reason: 'test',
    workflowTaskFinishEventId: completed!.eventId!,
    requestId: `reset-${Date.now()}`,
  });
  expect(await awaitOutcome(stack.runs.client, 'failed-activity-reset')).toEqual(outcome);
  const types = failuresIn(await historyOf('failed-activity-reset')).map(
    ({ failure }) => failure?.applicationFailureInfo?.type,
  );
  expect(types).toEqual(['stage/exit-nonzero']);
  expect(started.get('reset')).toBe(1);
});

test('a run with a shared VM that is reset after its end says that nothing ran again', async () => {
  worker = await stack.startWorker();
  expect((await run('reset-ended', spec('reset-ended', 0))).state).toBe('succeeded');
  const { client } = stack.runs;
  const completed = (await historyOf('reset-ended')).find(({ workflowTaskCompletedEventAttributes: end }) => end);
  await client.workflowService.resetWorkflowExecution({
    namespace: client.options.namespace,
    workflowExecution: { workflowId: 'reset-ended' },
    reason: 'test',
    workflowTaskFinishEventId: completed!.eventId!,
    requestId: `reset-${Date.now()}`,
  });
  expect((await awaitOutcome(client, 'reset-ended')).state).toBe('succeeded');
  expect(started.get('reset-ended')).toBe(1);
  const failed = failuresIn(await historyOf('reset-ended')).map(({ failure }) => failure);
  expect(new Set(failed.map((failure) => failure?.message))).toEqual(
    new Set(['run reset-ended has already ended (succeeded); a reset runs nothing again']),
  );
  // 1 is BENIGN.
  expect(new Set(failed.map((failure) => failure?.applicationFailureInfo?.category))).toEqual(new Set([1]));
  const { currentDetails } = await client.workflow
    .getHandle('reset-ended')
    .query<{ currentDetails: string }>('__temporal_workflow_metadata');
  expect(currentDetails).toMatch(/^\*\*fails\*\*: succeeded before it was reset\. The reset ran nothing again/);
  expect(currentDetails).not.toContain('First failure');
});

test('no payload and no failure of a failed, a refused and a cancelled run says where Voidbox is installed', async () => {
  worker = await stack.startWorker();
  await run('paths-fails', spec('paths', 9));
  await run('paths-refused', 'kind: nothing');
  const { client } = stack.runs;
  await startRun(client, {
    runId: 'paths-cancelled',
    request: { spec: spec('paths-cancelled', 1, ', retry: { max_attempts: 2, backoff_secs: 600 }') },
    summary: 'test',
  });
  while (!started.has('paths-cancelled')) await sleep(20);
  await client.workflow.getHandle('paths-cancelled').cancel();
  expect((await awaitOutcome(client, 'paths-cancelled')).state).toBe('cancelled');
  for (const runId of ['paths-fails', 'paths-refused', 'paths-cancelled']) {
    const text = textOf(await historyOf(runId));
    // Proves that the texts are read: the argument of the workflow and the failures.
    expect(text).toContain('kind: ');
    expect(text.split(findPackageRoot()).length - 1, `${runId} has paths of the installation`).toBe(0);
  }
});
