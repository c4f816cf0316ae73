/**
 * Rules for the order of stages that go beyond "after", through a real Temporal server and the real activities; only
 * the VM is a mock.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { compileText } from '../../domain/language/load.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { awaitOutcome, cancelRun, startRun } from '../../client/runs/runs.ts';
import type { RunEventBody, RunOutcome } from '../../domain/run/event.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { useTestRuns } from '../rig/servers/test-runs.ts';

/** How often commands were started, by their keys. */
const started = new Map<string, number>();
const backend = createMockBackend({
  programs: {
    /** `exit KEY CODE…`: the codes one after the other, then 0. */
    exit: async ({ args: [key = '', ...codes] }) => {
      const call = started.get(key) ?? 0;
      started.set(key, call + 1);
      return Number(codes[call] ?? '0');
    },
    /** Until it is killed. */
    hang: ({ killed }) =>
      new Promise((resolve) => killed.addEventListener('abort', () => resolve(137), { once: true })),
  },
});
const runs = useTestRuns(backend, {
  recorded: [
    'retry-growing',
    'retry-final',
    'tolerated',
    'tolerated-carry',
    'tolerated-carry-merge',
    'waits',
    'waits-cancelled',
    'waits-worker-change',
    'waits-found',
    'waits-found-failed',
    'waits-found-worker-change',
    'timeout',
    'timeout-waits',
    'on-failure',
  ],
});
const { stopWorker } = runs;

async function start(runId: string, steps: string, more = '', output = ''): Promise<void> {
  const spec = `kind: workflow\nname: ${runId}\n${more}sandbox: { mode: mock, isolation: none }\nworkflow:\n${output === '' ? '' : `  output_step: ${output}\n`}  steps:\n${steps}`;
  await startRun(runs.client, { runId, request: { spec }, summary: `test ${runId}` });
}

async function run(runId: string, steps: string, more = '', output = ''): Promise<RunOutcome> {
  await start(runId, steps, more, output);
  return await awaitOutcome(runs.client, runId);
}

async function untilAsleep(runId: string): Promise<void> {
  while ((await bodiesOf(runId, 'stage-sleeping')).length === 0) await sleep(20);
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

test('pauses between attempts grow up to the longest one', async () => {
  const retry = 'retry: { max_attempts: 5, initial_secs: 0.1, backoff: 3, max_secs: 0.5 }';
  const outcome = await run(
    'retry-growing',
    `    - { name: flaky, run: { program: exit, args: [growing, "1", "1", "1"] }, ${retry} }\n`,
  );
  expect(outcome.state).toBe('succeeded');
  const pauses = (await bodiesOf('retry-growing', 'stage-retrying')).map(({ delayMs }) => delayMs);
  expect(pauses).toEqual([100, 300, 500]);
  expect(started.get('growing')).toBe(4);
});

test('a failure that is not worth another attempt ends the stage', async () => {
  const retry = 'retry: { max_attempts: 5, non_retryable: [exit:2] }';
  const outcome = await run(
    'retry-final',
    `    - { name: final, run: { program: exit, args: [final, "1", "2", "1"] }, ${retry} }\n`,
  );
  expect(outcome).toMatchObject({ state: 'failed', failedStage: 'final', failure: { code: 'stage/exit-nonzero' } });
  expect(started.get('final')).toBe(2);
});

test('a run whose only failures are tolerated succeeds, and says which', async () => {
  const outcome = await run(
    'tolerated',
    `    - { name: lint, continue_on_error: true, run: { program: exit, args: [lint, "3"] } }
    - { name: build, depends_on: [lint], run: { program: echo, args: [built] } }\n`,
  );
  expect(outcome).toMatchObject({ state: 'succeeded', failedStage: null, failure: null, tolerated: ['lint'] });
  expect(await runs.stack.artifact(outcome.output!)).toBe('built\n');
  expect((await bodiesOf('tolerated', 'run-finished'))[0]?.outcome.tolerated).toEqual(['lint']);
});

test('in a pipeline the input of a stage passes over its tolerated failure, and a merge leaves the stage out', async () => {
  const boxes = ['fetch', 'left', 'right', 'all', 'lint', 'report'];
  const work: Record<string, string> = {
    fetch: 'run: { program: echo, args: [fetched] }',
    left: 'continue_on_error: true, run: { program: exit, args: [left, "3"] }',
    right: 'run: { program: cat, args: [/workspace/input.json] }',
    all: 'run: { program: cat, args: [/workspace/input.json] }',
    lint: 'continue_on_error: true, run: { program: exit, args: [last, "3"] }',
    report: 'run: { program: cat, args: [/workspace/input.json] }',
  };
  const stages =
    '[{type: box, name: fetch}, {type: fan_out, boxes: [left, right]}, {type: box, name: all}, {type: box, name: lint}, {type: box, name: report}]';
  const spec = `kind: pipeline\nname: carry\nsandbox: { mode: mock, isolation: none }\npipeline:\n  stages: ${stages}\n  boxes:\n${boxes.map((name) => `    - { name: ${name}, ${work[name]} }\n`).join('')}`;
  await startRun(runs.client, { runId: 'tolerated-carry', request: { spec }, summary: 'test' });
  const outcome = await awaitOutcome(runs.client, 'tolerated-carry');
  expect(outcome).toMatchObject({ state: 'succeeded', tolerated: ['left', 'lint'] });
  expect(JSON.parse(await runs.stack.artifact(outcome.output!))).toEqual([{ name: 'right', output: 'fetched\n' }]);
});

test('the input of a run, and a merge, go past a failure that is tolerated', async () => {
  const spec = `kind: pipeline
name: carry-merge
sandbox: { mode: mock, isolation: none }
pipeline:
  boxes:
    - { name: lint, continue_on_error: true, run: { program: exit, args: [carry-first, "3"] } }
    - { name: left, run: { program: cat, args: [/workspace/input.json] } }
    - { name: right, run: { program: echo, args: [right] } }
    - { name: check, continue_on_error: true, run: { program: exit, args: [carry-merge, "3"] } }
    - { name: passed, when: "false", run: { program: echo } }
    - { name: report, run: { program: cat, args: [/workspace/input.json] } }
  stages:
    - { type: box, name: lint }
    - { type: fan_out, boxes: [left, right] }
    - { type: box, name: check }
    - { type: box, name: passed }
    - { type: box, name: report }
`;
  const request = { spec, input: { kind: 'inline', text: '{"rows":3}' } } as const;
  await startRun(runs.client, { runId: 'tolerated-carry-merge', request, summary: 'test' });
  const outcome = await awaitOutcome(runs.client, 'tolerated-carry-merge');
  expect(outcome).toMatchObject({ state: 'succeeded', tolerated: ['lint', 'check'] });
  expect(JSON.parse(await runs.stack.artifact(outcome.output!))).toEqual([
    { name: 'left', output: { rows: 3 } },
    { name: 'right', output: 'right\n' },
  ]);
});

test('a wait ends at its time, a wait for a past time ends at once, and neither uses a VM', async () => {
  const outcome = await run(
    'waits',
    `    - { name: past, wait: { until: 2001-01-01T00:00:00Z } }
    - { name: pause, depends_on: [past], wait: { for: 1s } }
    - { name: last, depends_on: [pause], wait: { for: 1s } }\n`,
  );
  expect(outcome).toMatchObject({ state: 'succeeded', output: null });
  const events = await runs.stack.eventsOf('waits');
  expect(events.map(({ body }) => body.type)).not.toContain('vm-starting');
  const at = (type: RunEventBody['type'], stage: string): number =>
    events.find(({ body }) => body.type === type && 'stage' in body && body.stage === stage)!.atMs;
  expect((await bodiesOf('waits', 'stage-woken')).map(({ stage }) => stage)).toEqual(['past', 'pause', 'last']);
  expect(at('stage-woken', 'pause')).toBeGreaterThanOrEqual(at('stage-sleeping', 'pause') + 1_000);
  const [sleeping] = await bodiesOf('waits', 'stage-sleeping');
  expect(sleeping).toMatchObject({ stage: 'pause', untilMs: at('stage-sleeping', 'pause') + 1_000 });
});

test('a run that is cancelled ends its wait at once', async () => {
  await start('waits-cancelled', '    - { name: pause, wait: { for: 400d } }\n');
  await untilAsleep('waits-cancelled');
  await cancelRun(runs.client, 'waits-cancelled');
  expect((await awaitOutcome(runs.client, 'waits-cancelled')).state).toBe('cancelled');
  expect(await bodiesOf('waits-cancelled', 'stage-woken')).toMatchObject([{ outcome: 'cancelled' }]);
});

test('a wait survives the worker', async () => {
  await start('waits-worker-change', '    - { name: pause, wait: { for: 3s } }\n');
  await untilAsleep('waits-worker-change');
  await stopWorker();
  await runs.startWorker();
  expect((await awaitOutcome(runs.client, 'waits-worker-change')).state).toBe('succeeded');
  expect(await bodiesOf('waits-worker-change', 'stage-sleeping')).toHaveLength(1);
});

const SOON = (ms: number): string => JSON.stringify({ at: new Date(Date.now() + ms).toISOString() });

test('a wait lasts until the time that an earlier output says, and one whose time has passed is over', async () => {
  const outcome = await run(
    'waits-found',
    `    - { name: plan, run: { program: echo, args: ['${SOON(2_500)}'] } }
    - { name: window, wait: { until: stages.plan.json.at } }
    - { name: day, run: { program: echo, args: ['1999'] } }
    - { name: past, wait: { until: "\${{ stages.day.output.trim() }}-\${{ params.rest }}" } }
    - { name: last, depends_on: [window, past], run: { program: echo, args: [done] } }\n`,
    'params: { rest: "01-01T00:00:00Z" }\n',
  );
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
  const events = await runs.stack.eventsOf('waits-found');
  const [sleeping, ...others] = await bodiesOf('waits-found', 'stage-sleeping');
  expect(others).toEqual([]);
  const woken = events.find(({ body }) => body.type === 'stage-woken' && body.stage === 'window')!;
  expect(sleeping).toMatchObject({ stage: 'window', execKey: 'window/0/1' });
  expect(woken.atMs).toBeGreaterThanOrEqual(sleeping!.untilMs);
  expect((await bodiesOf('waits-found', 'stage-woken')).map(({ stage }) => stage).toSorted()).toEqual([
    'past',
    'window',
  ]);
});

test('a value that is not a time fails the wait, with the value, and is not tried again', async () => {
  const outcome = await run(
    'waits-found-failed',
    `    - { name: plan, run: { program: echo, args: [tomorrow] } }
    - { name: window, wait: { until: stages.plan.output } }
    - { name: absent, wait: { until: stages.plan.json.at }, continue_on_error: true }
    - { name: sorry, on_failure: [window], run: { program: echo, args: [sorry] } }
    - { name: last, depends_on: [window], run: { program: echo } }\n`,
    '',
    'last',
  );
  expect(outcome).toMatchObject({
    state: 'failed',
    failedStage: 'window',
    failure: {
      code: 'stage/wait-time',
      message: expect.stringContaining('stage window waits until "tomorrow", which is not a time') as string,
    },
  });
  const failed = await bodiesOf('waits-found-failed', 'stage-failed');
  expect(failed.map(({ stage, failure }) => `${stage} ${failure.code}`).toSorted()).toEqual([
    'absent stage/expression',
    'window stage/wait-time',
  ]);
  expect((await bodiesOf('waits-found-failed', 'stage-finished')).map(({ result }) => result.stage)).toContain('sorry');
});

test('a time that was found stays the same on another worker', async () => {
  await start(
    'waits-found-worker-change',
    `    - { name: plan, run: { program: echo, args: ['${SOON(4_000)}'] } }
    - { name: window, wait: { until: stages.plan.json.at } }\n`,
  );
  await untilAsleep('waits-found-worker-change');
  await stopWorker();
  await runs.startWorker();
  expect((await awaitOutcome(runs.client, 'waits-found-worker-change')).state).toBe('succeeded');
  expect(await bodiesOf('waits-found-worker-change', 'stage-sleeping')).toHaveLength(1);
});

test('a run that takes longer than it may stops its stages, releases its VMs and says why', async () => {
  const outcome = await run(
    'timeout',
    `    - { name: hangs, run: { program: hang } }
    - { name: after, depends_on: [hangs], run: { program: echo } }\n`,
    'timeout_secs: 1\n',
  );
  expect(outcome).toMatchObject({
    state: 'failed',
    failedStage: null,
    failure: { code: 'run/timeout', message: expect.stringMatching(/^the run took longer than its 1\.0 s/) },
  });
  expect(backend.alive()).toEqual([]);
  expect(await bodiesOf('timeout', 'stage-skipped')).toMatchObject([
    { stage: 'after', reason: 'the run gave up: run/timeout' },
  ]);
});

test('the time in which a run only waits does not count, before and after other work', async () => {
  const outcome = await run(
    'timeout-waits',
    `    - { name: pause, wait: { for: 6s } }
    - { name: work, depends_on: [pause], run: { program: echo, args: [done] } }
    - { name: again, depends_on: [work], wait: { for: 6s } }\n`,
    'timeout_secs: 10\n',
  );
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
});

test('the deadline of a run counts the time in which it waits', async () => {
  const spec = `kind: workflow
name: deadline
sandbox: { mode: mock, isolation: none }
workflow: { steps: [{ name: pause, wait: { for: 60s } }, { name: clean, finally: true, run: { program: echo } }] }
`;
  const { plan } = compileText(spec, 'deadline.yaml', { baseDir: null });
  const request = { plan: toWire({ ...plan!, deadlineMs: 1_000 }) };
  await startRun(runs.client, { runId: 'deadline', request, summary: 'test deadline' });
  expect(await awaitOutcome(runs.client, 'deadline')).toMatchObject({
    state: 'failed',
    failure: {
      code: 'run/timeout',
      message: expect.stringContaining('1.0 s (`--deadline`), with the time in which it'),
    },
  });
  expect((await bodiesOf('deadline', 'stage-finished')).map(({ stage }) => stage)).toEqual(['clean']);
});

test('the result of a run has a short output as text, with its hash', async () => {
  expect(await run('reply', '    - { name: say, run: { program: echo, args: [done] } }\n')).toMatchObject({
    outputText: 'done\n',
    output: { sizeBytes: 5, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
  });
});

test('a step that waits for failures runs after one of them, and the run has failed', async () => {
  const outcome = await run(
    'on-failure',
    `    - { name: left, run: { program: exit, args: [on-failure, "3"] } }
    - { name: right, run: { program: echo, args: [fine] } }
    - { name: notify, on_failure: [left, right], run: { program: echo, args: [sorry] } }
    - { name: never, on_failure: [right], run: { program: echo } }\n`,
    '',
    'right',
  );
  expect(outcome).toMatchObject({ state: 'failed', failedStage: 'left' });
  expect((await bodiesOf('on-failure', 'stage-finished')).map(({ stage }) => stage)).toContain('notify');
  expect(await bodiesOf('on-failure', 'stage-skipped')).toMatchObject([{ stage: 'never' }]);
});
