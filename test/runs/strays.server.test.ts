/** Signals and updates that a run has no handler for, sent by a client of a real Temporal server. */
import type { WorkflowHandle } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { answerStage } from '../../client/runs/answers.ts';
import { awaitOutcome, startRun } from '../../client/runs/runs.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { recordHistoriesOf } from '../rig/runs/record-histories.ts';
import { temporalCliForTests } from '../rig/servers/temporal-cli.ts';
import { startTestStack, type TestStack } from '../rig/servers/test-worker.ts';
import type { RunningWorkers } from '../../workers/workers.ts';

const SPEC = `
kind: workflow
name: strays
sandbox: { mode: mock, isolation: none }
workflow:
  output_step: publish
  steps:
    - { name: release, approval: { message: "Release?" } }
    - { name: publish, depends_on: [release], run: { program: cat, stdin_from: release } }
`;
const LONG = 'n'.repeat(1_000);

let stack: TestStack;
let worker: RunningWorkers;

beforeAll(async () => {
  stack = await startTestStack(createMockBackend({ programs: {} }), await temporalCliForTests(), () => undefined);
  worker = await stack.startWorker();
});

afterAll(async () => {
  await recordHistoriesOf(stack.runs.client, ['strays-few']);
  worker?.shutdown();
  await worker?.ended;
  await worker?.close();
  await stack?.stop();
});

async function start(runId: string): Promise<WorkflowHandle> {
  await startRun(stack.runs.client, { runId, request: { spec: SPEC }, summary: runId });
  const handle = stack.runs.client.workflow.getHandle(runId);
  await expect.poll(() => stageState(handle), { timeout: 30_000, interval: 100 }).toBe('asking');
  return handle;
}

async function stageState(handle: WorkflowHandle): Promise<string | undefined> {
  const { stages } = await handle.query<{ stages: readonly { state: string }[] }>('view');
  return stages[0]?.state;
}

async function noticesOf(runId: string): Promise<readonly string[]> {
  const notices: string[] = [];
  for await (const { body } of stack.stores.reader.read(runId, 0))
    if (body.type === 'notice') notices.push(body.message);
  return notices;
}

async function finish(runId: string): Promise<void> {
  await answerStage(stack.runs.client, runId, { stage: 'release', decision: 'approve' });
  expect((await awaitOutcome(stack.runs.client, runId)).state).toBe('succeeded');
}

const refusalOf = async (update: Promise<unknown>): Promise<string> =>
  await update.then(
    () => 'was taken',
    (error: unknown) => String((error as { cause?: { message?: string } }).cause?.message),
  );

test('a signal and an update without a handler are notices of the run, which ends as before', async () => {
  const handle = await start('strays-few');
  await handle.signal('cancelfinally', { more: 'x' });
  const refused = await refusalOf(handle.executeUpdate('approve', { args: ['release'] }));
  expect(refused).toBe('the update "approve" has no handler and was refused: a run takes the update "answer"');
  await expect
    .poll(() => noticesOf('strays-few'), { timeout: 20_000 })
    .toEqual([
      'the signal "cancelfinally" has no handler and was ignored: a run takes the signal "cancelFinally"',
      refused,
    ]);
  await finish('strays-few');
});

test('a signal and an update with a name that the SDK reserves stop no run', async () => {
  const handle = await start('strays-reserved');
  await handle.signal('__temporal_x');
  expect(await refusalOf(handle.executeUpdate('__temporal_x'))).not.toBe('was taken');
  await finish('strays-reserved');
  const types = ((await handle.fetchHistory()).events ?? []).filter((event) => event.workflowTaskFailedEventAttributes);
  expect(types).toEqual([]);
});

test(
  'a flood of signals leaves five short notices, and no more history than the signals themselves',
  { timeout: 240_000 },
  async () => {
    const handle = await start('strays-flood');
    await expect(handle.signal('n'.repeat(2 ** 20))).rejects.toHaveProperty('cause.code', 3);
    for (let from = 0; from < 1_500; from += 100)
      await Promise.all(
        Array.from({ length: 100 }, (_, index) => handle.signal(`${from + index}${LONG}`.slice(0, 1_000))),
      );
    for (let number = 0; number < 3; number += 1)
      expect(await refusalOf(handle.executeUpdate(`more${number}`))).toContain(
        'No registered handler for update: more',
      );
    await finish('strays-flood');
    const notices = await noticesOf('strays-flood');
    expect(notices).toHaveLength(5);
    expect(notices.at(-1)).toContain('No more notices of this kind follow');
    for (const notice of notices) expect(notice.length).toBeLessThan(300);
    const events = (await handle.fetchHistory()).events ?? [];
    const calls = events.filter(
      (event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'appendEvents',
    );
    expect(calls.length).toBeLessThanOrEqual(6);
    expect(events.filter((event) => event.workflowExecutionUpdateAcceptedEventAttributes)).toHaveLength(1);
  },
);
