/** How long a run may become, on real servers: the longest plan fits, a longer run ends itself, and what the server ends says why. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { HistoryLimit } from '../../activities/contract.ts';
import { PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { awaitOutcome, describeRun, repairRun, startRun } from '../../client/runs/runs.ts';
import { recordHistoriesOf, recordingDir } from '../rig/runs/record-histories.ts';
import { temporalCliForTests } from '../rig/servers/temporal-cli.ts';
import { startTestStack, type TestStack } from '../rig/servers/test-worker.ts';
import { itemsWorkflowId } from '../../workflows/messages.ts';
import { lastStartOf } from '../../workflows/run/history-limit.ts';
import type { RunningWorkers } from '../../workers/workers.ts';

/** Items that run at the moment, and most that ever did. */
let itemsNow = 0;
let mostRunning = 0;

const backend = createMockBackend({
  programs: {
    /** The command of an item: prints its number. */
    item: async ({ env, write }) => {
      itemsNow += 1;
      mostRunning = Math.max(mostRunning, itemsNow);
      await sleep(5);
      itemsNow -= 1;
      await write('stdout', env['VOIDBOX_ITEM_INDEX']!);
      return 0;
    },
    /** Until it is killed. */
    wait: async ({ killed }) => {
      await sleep(600_000, undefined, { signal: killed });
      return 0;
    },
  },
});

interface Running {
  readonly stack: TestStack;
  readonly worker: RunningWorkers;
}

async function startStack(flags: readonly string[] = []): Promise<Running> {
  const stack = await startTestStack(backend, await temporalCliForTests(), () => undefined, flags);
  return { stack, worker: await stack.startWorker() };
}

async function stopStack(running: Running | undefined): Promise<void> {
  running?.worker.shutdown();
  await running?.worker.ended;
  await running?.worker.close();
  await running?.stack.stop();
}

/** Steps in one VM, in lanes: each depends on the one before it in its lane. */
function manySteps(count: number, lanes: number, more = ''): string {
  const name = (index: number): string => `a-step-with-a-name-${String(index).padStart(4, '0')}`.slice(-21);
  const steps = Array.from(
    { length: count },
    (_, index) =>
      `    - { name: ${name(index)}, run: { program: 'true' }${index < lanes ? '' : `, depends_on: [${name(index - lanes)}]`} }\n`,
  );
  return `kind: workflow\nname: long\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  steps:\n${more}${steps.join('')}  output_step: ${name(count - 1)}\n`;
}

describe('a run of as many stages as a plan may have', () => {
  let running: Running;
  beforeAll(async () => {
    running = await startStack();
  });
  afterAll(() => stopStack(running));

  test('with long names succeeds, and its history is far from full', { timeout: 300_000 }, async () => {
    const { client } = running.stack.runs;
    await startRun(client, { runId: 'longest', request: { spec: manySteps(PLAN_LIMITS.stages, 10) }, summary: 'test' });
    expect(await awaitOutcome(client, 'longest')).toMatchObject({ state: 'succeeded', failure: null });
    const { historyLength, historySize } = await client.workflow.getHandle('longest').describe();
    expect(historyLength).toBeLessThanOrEqual(20 + PLAN_LIMITS.stages * 6);
    expect(historySize).toBeLessThan(10 * 1024 * 1024);
    expect((await running.stack.eventsOf('longest')).filter(({ body }) => body.type === 'stage-finished')).toHaveLength(
      PLAN_LIMITS.stages,
    );
  });
});

describe('a run whose history grows too long', () => {
  const SERVER_EVENTS = 400;
  let running: Running;
  beforeAll(async () => {
    running = await startStack(['--dynamic-config-value', `limit.historyCount.error=${SERVER_EVENTS}`]);
  });
  afterAll(async () => {
    const { client } = running.stack.runs;
    await recordHistoriesOf(client, ['history-full', 'history-windows']);
    if (recordingDir() !== null) {
      const { runId: executionId } = await client.workflow.getHandle('history-windows').describe();
      await recordHistoriesOf(
        client,
        [0, 1].map((window) => itemsWorkflowId(executionId, 'each', window)),
      );
    }
    await stopStack(running);
  });

  async function startLong(runId: string, historyLimit: HistoryLimit): Promise<void> {
    const { stack } = running;
    // The limit that admission gives to this run.
    (stack.deps as { historyLimit?: HistoryLimit }).historyLimit = historyLimit;
    const waiting = "    - { name: waits, run: { program: 'wait' } }\n";
    await startRun(stack.runs.client, { runId, request: { spec: manySteps(200, 1, waiting) }, summary: 'test' });
  }

  const MIB = 1024 * 1024;

  test.each<[string, HistoryLimit]>([
    ['history-full', { events: 100, bytes: 36 * MIB }],
    ['history-large', { events: 36_000, bytes: 90_000 }],
  ])('ends itself before the server does: %s', async (runId, limit) => {
    const { stack } = running;
    await startLong(runId, limit);
    const outcome = await awaitOutcome(stack.runs.client, runId);
    expect(outcome).toMatchObject({
      state: 'failed',
      failedStage: null,
      failure: { code: 'run/history-full', message: expect.stringMatching(/split the spec/) },
    });
    expect((await describeRun(stack.runs.client, runId)).state).toBe('failed');
    const events = await stack.eventsOf(runId);
    const last = events.at(-1)!.body;
    expect(last.type === 'run-finished' && last.outcome).toEqual(outcome);
    const skipped = events.flatMap(({ body }) => (body.type === 'stage-skipped' ? [body.reason] : []));
    expect(new Set(skipped)).toEqual(new Set(['the run gave up: run/history-full']));
    const waits = events.find(({ body }) => body.type === 'stage-finished' && body.stage === 'waits')!.body;
    expect(waits.type === 'stage-finished' && waits.result.outcome).toBe('cancelled');
    expect(backend.alive()).toEqual([]);
  });

  test('items of a list continue in another window before a history is full', { timeout: 120_000 }, async () => {
    const { stack } = running;
    (stack.deps as { historyLimit?: HistoryLimit }).historyLimit = { events: 360, bytes: 36 * MIB };
    const list = JSON.stringify(Array.from({ length: 170 }, (_, item) => item));
    const step = `{ name: each, for_each: ${list}, max_parallel: 4, run: { program: item } }`;
    const spec = `kind: workflow\nname: windows\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  output_step: each\n  steps:\n    - ${step}\n`;
    await startRun(stack.runs.client, { runId: 'history-windows', request: { spec }, summary: 'test' });
    const { state, output } = await awaitOutcome(stack.runs.client, 'history-windows');
    expect(state).toBe('succeeded');
    const results = JSON.parse(await stack.artifact(output!)) as readonly { readonly output: number }[];
    expect(results.map((each) => each.output)).toEqual(Array.from({ length: 170 }, (_, item) => item));
    expect(mostRunning).toBeLessThanOrEqual(4);
    const { runId: executionId } = await stack.runs.client.workflow.getHandle('history-windows').describe();
    const lengths: number[] = [];
    for (let window = 0; window < 3; window += 1) {
      const id = itemsWorkflowId(executionId, 'each', window);
      lengths.push((await stack.runs.client.workflow.getHandle(id).describe()).historyLength);
    }
    for (const length of lengths) expect(length).toBeLessThan(360);
    // A window that ends earlier wastes its history; four items with four attempts each may be open from there.
    expect(lengths[0]).toBeGreaterThanOrEqual(lastStartOf({ events: 360, bytes: 36 * MIB }, 4, 4).events);
  });

  test('and that the server ends all the same says why', async () => {
    const { stack } = running;
    await startLong('by-server', { events: 36_000, bytes: 36 * MIB });
    const outcome = await awaitOutcome(stack.runs.client, 'by-server');
    expect(outcome).toMatchObject({
      state: 'terminated',
      failure: { code: 'run/terminated', message: expect.stringMatching(/history (count|size) exceeds/i) },
    });
    expect(await repairRun(stack.runs.client, stack.deps.events, 'by-server')).toEqual(outcome);
    const last = (await stack.eventsOf('by-server')).findLast(({ body }) => body.type === 'run-finished')!.body;
    expect(last.type === 'run-finished' && last.outcome).toEqual(outcome);
  });

  test('or that an operator ends says what the operator said, made safe', async () => {
    const { stack } = running;
    await startLong('by-operator', { events: 36_000, bytes: 36 * MIB });
    await stack.runs.client.workflow.getHandle('by-operator').terminate('moving house\u001b[31m\nnow');
    expect(await repairRun(stack.runs.client, stack.deps.events, 'by-operator')).toMatchObject({
      state: 'terminated',
      failure: {
        code: 'run/terminated',
        message: expect.stringMatching(
          /^the run's workflow was ended from outside: moving house[ -~\u2400-\u243f]*now$/,
        ),
      },
    });
  });
});
