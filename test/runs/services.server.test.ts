/** Services through a real Temporal server and the real activities; only the VM is a mock. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { awaitOutcome, cancelRun, startRun } from '../../client/runs/runs.ts';
import { SERVICE_TIMEOUT_MS } from '../../domain/plan/defaults.ts';
import type { RunEventBody } from '../../domain/run/event.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { useTestRuns } from '../rig/servers/test-runs.ts';
import type { TestStack } from '../rig/servers/test-worker.ts';

const FILE = '/workspace/state.json';

/** How often services were started, and how they end, by their keys. */
const started = new Map<string, number>();
const ends = new Map<string, (exitCode: number) => void>();
const backend = createMockBackend({
  programs: {
    /** Counts in its output file, until it is killed or told to end. */
    serve: async ({ args: [key = ''], files, killed }) => {
      started.set(key, (started.get(key) ?? 0) + 1);
      let exitCode: number | null = null;
      ends.set(key, (code) => (exitCode = code));
      for (let count = 1; exitCode === null && !killed.aborted; count += 1) {
        files.write(FILE, Buffer.from(JSON.stringify({ count })));
        await sleep(50);
      }
      return exitCode ?? 137;
    },
  },
});
const runs = useTestRuns(backend, { recorded: ['service-cancelled', 'service-timeout', 'service-ends'] });
const { stopWorker } = runs;

async function start(runId: string, more = '', steps = ''): Promise<void> {
  const spec = `kind: workflow\nname: ${runId}\n${more}sandbox: { mode: mock, isolation: none }\nworkflow:\n  output_step: serve\n  steps:\n    - { name: serve, mode: service, output_file: ${FILE}, run: { program: serve, args: [${runId}] } }\n${steps}`;
  await startRun(runs.client, { runId, request: { spec }, summary: `test ${runId}` });
}

async function bodiesOf<T extends RunEventBody['type']>(
  runId: string,
  type: T,
): Promise<readonly Extract<RunEventBody, { type: T }>[]> {
  const events = await runs.stack.eventsOf(runId);
  return events
    .map(({ body }) => body)
    .filter((body): body is Extract<RunEventBody, { type: T }> => body.type === type);
}

async function untilPublished(runId: string, times: number): Promise<void> {
  while ((await bodiesOf(runId, 'stage-published')).length < times) await sleep(50);
}

async function historyOf(runId: string) {
  const { events } = await runs.client.workflow.getHandle(runId).fetchHistory();
  return events ?? [];
}

async function countIn(ref: Parameters<TestStack['artifact']>[0] | null): Promise<number> {
  expect(ref).not.toBeNull();
  return (JSON.parse(await runs.stack.artifact(ref!)) as { readonly count: number }).count;
}

test('a service serves beside other steps until it is cancelled; its history does not grow, and its last output is the result', async () => {
  await start('service-cancelled', '', '    - { name: beside, run: { program: echo, args: [beside] } }\n');
  // At this point the step next to it has ended, and the server has recorded its end.
  await untilPublished('service-cancelled', 2);
  const before = await historyOf('service-cancelled');
  await untilPublished('service-cancelled', 4);
  expect(await historyOf('service-cancelled')).toHaveLength(before.length);
  const calls = before.flatMap(({ activityTaskScheduledEventAttributes: call }) =>
    call?.activityType?.name === 'runStage' ? [call] : [],
  );
  const seconds = calls.map(({ scheduleToCloseTimeout }) => Number(scheduleToCloseTimeout?.seconds ?? 0));
  expect(Math.max(...seconds), 'no time of Temporal ends it').toBeGreaterThan(SERVICE_TIMEOUT_MS / 1_000);
  const [first, , third] = await bodiesOf('service-cancelled', 'stage-published');
  expect(await countIn(third!.output)).toBeGreaterThan(await countIn(first!.output));

  await cancelRun(runs.client, 'service-cancelled');
  expect((await awaitOutcome(runs.client, 'service-cancelled')).state).toBe('cancelled');
  // The client of a cancelled workflow gets no result; the run's last event contains it.
  const [last] = await bodiesOf('service-cancelled', 'run-finished');
  expect(last!.outcome).toMatchObject({ state: 'cancelled', failedStage: null, failure: null });
  expect(await countIn(last!.outcome.output)).toBeGreaterThan(await countIn(third!.output));
  const ended = await bodiesOf('service-cancelled', 'stage-finished');
  expect(ended.map(({ result: { stage, outcome: state } }) => `${stage} ${state}`)).toEqual([
    'beside succeeded',
    'serve cancelled',
  ]);
});

test('a service outlives its worker: the next worker continues to publish, and starts nothing', async () => {
  await start('service-worker-change');
  await untilPublished('service-worker-change', 2);
  await stopWorker();
  await runs.startWorker();
  const before = (await bodiesOf('service-worker-change', 'stage-published')).length;
  await untilPublished('service-worker-change', before + 1);
  expect(await bodiesOf('service-worker-change', 'stage-reattached')).toHaveLength(1);
  await cancelRun(runs.client, 'service-worker-change');
  expect((await awaitOutcome(runs.client, 'service-worker-change')).state).toBe('cancelled');
  expect(started.get('service-worker-change')).toBe(1);
});

test('the time limit of a run ends a service, too, as a failure with its last output', async () => {
  await start('service-timeout', 'timeout_secs: 2\n');
  const outcome = await awaitOutcome(runs.client, 'service-timeout');
  expect(outcome).toMatchObject({ state: 'failed', failure: { code: 'run/timeout' } });
  expect(await countIn(outcome.output)).toBeGreaterThan(1);
});

test('a service that ends on its own ends like any other stage', async () => {
  await start('service-ends');
  await untilPublished('service-ends', 1);
  ends.get('service-ends')!(7);
  expect(await awaitOutcome(runs.client, 'service-ends')).toMatchObject({
    state: 'failed',
    failedStage: 'serve',
    failure: { code: 'stage/exit-nonzero' },
  });
  await start('service-done');
  await untilPublished('service-done', 1);
  ends.get('service-done')!(0);
  const done = await awaitOutcome(runs.client, 'service-done');
  expect(done.state).toBe('succeeded');
  expect(await countIn(done.output)).toBeGreaterThan(0);
});
