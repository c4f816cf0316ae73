/** Stages with conditions, through a real Temporal server and the real activities; only the VM is a mock. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { cancelRun, startRun } from '../../client/runs/runs.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { emptyView, type StageState } from '../../store/run-view.ts';
import { project } from '../../store/projection.ts';
import { useTestRuns } from '../rig/servers/test-runs.ts';

const backend = createMockBackend({ programs: {} });
const runs = useTestRuns(backend, {
  recorded: [
    'condition-holds',
    'condition-passes',
    'condition-fails',
    'condition-cancelled',
    'condition-worker-change',
    'condition-handed-on',
  ],
  activities: ({ evaluateCondition }) => ({
    evaluateCondition: async (call) => {
      held?.called();
      await held?.release;
      return evaluateCondition(call);
    },
  }),
});
const { stopWorker, outcomeOf } = runs;

/** While it is set, no condition is decided: the worker has the call and does not answer. */
let held: { readonly release: Promise<void>; called: () => void } | null = null;

function holdConditions(): { readonly called: Promise<void>; readonly release: () => void } {
  let release = (): void => undefined;
  let called = (): void => undefined;
  const isCalled = new Promise<void>((resolve) => (called = resolve));
  held = { release: new Promise((resolve) => (release = resolve)), called };
  return { called: isCalled, release: () => ((held = null), release()) };
}

/** Settles when the workflow has completed a task after the request to cancel it. */
async function untilToldOfCancel(runId: string): Promise<void> {
  const isTold = async (): Promise<boolean> => {
    const { events = [] } = await runs.client.workflow.getHandle(runId).fetchHistory();
    const at = events!.findIndex(
      ({ workflowExecutionCancelRequestedEventAttributes: asked }) => (asked ?? null) !== null,
    );
    return (
      at >= 0 && events!.slice(at).some(({ workflowTaskCompletedEventAttributes: done }) => (done ?? null) !== null)
    );
  };
  await expect.poll(isTold).toBe(true);
}

const workflow = (name: string, when: string): string => `
kind: workflow
name: ${name}
params: { env: prod }
sandbox: { mode: mock, isolation: none }
workflow:
  output_step: last
  steps:
    - { name: build, run: { program: echo, args: ['{"ok":true,"rows":9007199254740993}'] } }
    - { name: publish, when: '${when}', run: { program: echo, args: [published] } }
    - { name: last, depends_on: [publish], run: { program: echo, args: [done] } }
`;

const start = (runId: string, spec: string): Promise<void> =>
  startRun(runs.client, { runId, request: { spec }, summary: `test ${runId}` });

async function statesOf(runId: string): Promise<Readonly<Record<string, StageState>>> {
  const view = (await runs.stack.eventsOf(runId)).reduce(project, emptyView(runId));
  return Object.fromEntries(view.stages.map(({ id, state }) => [id, state]));
}

test('a stage whose condition holds runs', async () => {
  await start(
    'condition-holds',
    workflow('holds', 'params.env == "prod" && stages.build.json.rows == 9007199254740993'),
  );
  expect((await outcomeOf('condition-holds')).state).toBe('succeeded');
  expect(await statesOf('condition-holds')).toEqual({ build: 'succeeded', publish: 'succeeded', last: 'succeeded' });
});

test('a stage whose condition does not hold is passed, and the run succeeds without it', async () => {
  await start('condition-passes', workflow('passes', 'stages.build.json.rows == 9007199254740992'));
  expect((await outcomeOf('condition-passes')).state).toBe('succeeded');
  expect(await statesOf('condition-passes')).toEqual({ build: 'succeeded', publish: 'passed', last: 'succeeded' });
});

test('a stage whose condition cannot be decided fails with the reason', async () => {
  await start('condition-fails', workflow('fails', 'stages.build.json.missing'));
  expect(await outcomeOf('condition-fails')).toMatchObject({
    state: 'failed',
    failedStage: 'publish',
    failure: {
      code: 'stage/condition',
      message: expect.stringContaining('no such key: missing; ask for it with `has(…)` first'),
    },
  });
  expect(await statesOf('condition-fails')).toEqual({ build: 'succeeded', publish: 'failed', last: 'skipped' });
});

test('a run that is cancelled while a condition is decided ends', async () => {
  const { called, release } = holdConditions();
  await start('condition-cancelled', workflow('cancelled', 'stages.build.json.ok'));
  await called;
  await cancelRun(runs.client, 'condition-cancelled');
  await untilToldOfCancel('condition-cancelled');
  release();
  expect((await outcomeOf('condition-cancelled')).state).toBe('cancelled');
  expect(await statesOf('condition-cancelled')).toEqual({ build: 'succeeded', publish: 'skipped', last: 'skipped' });
});

test('a condition is decided although its worker ends during the decision', async () => {
  const { called, release } = holdConditions();
  await start('condition-worker-change', workflow('worker-change', 'stages.build.json.ok'));
  await called;
  const ended = stopWorker();
  await sleep(500);
  release();
  await ended;
  await runs.startWorker();
  expect((await outcomeOf('condition-worker-change')).state).toBe('succeeded');
  expect(await statesOf('condition-worker-change')).toMatchObject({ publish: 'succeeded' });
});

test('in a pipeline a passed box hands on what it would have found', async () => {
  await start(
    'condition-handed-on',
    `
kind: pipeline
name: handed-on
sandbox: { mode: mock, isolation: none }
pipeline:
  boxes:
    - { name: first, when: "false", run: { program: echo, args: [first] } }
    - { name: second, run: { program: echo, args: [second] } }
    - { name: third, when: 'stages.first.state == "succeeded"', run: { program: echo, args: [third] } }
    - { name: left, when: 'has(stages.first.output)', run: { program: echo, args: [left] } }
    - { name: right, run: { program: cat, args: [/workspace/input.json] } }
    - { name: ask, when: "stages.second.exit_code != 0", approval: { message: "Go on?" } }
  stages:
    - { type: box, name: first }
    - { type: box, name: second }
    - { type: box, name: third }
    - { type: fan_out, boxes: [left, right] }
    - { type: box, name: ask }
`,
  );
  const { state, output } = await outcomeOf('condition-handed-on');
  expect(state).toBe('succeeded');
  expect(await runs.stack.artifact(output!)).toBe('[{"name":"right","output":"second\\n"}]');
});

test('a run of which every stage is passed succeeds, however many there are', async () => {
  const steps = Array.from(
    { length: 300 },
    (_, index) => `    - { name: s${index}, when: "params.env != \\"prod\\"", run: { program: echo } }\n`,
  ).join('');
  await start(
    'condition-many',
    `kind: workflow\nname: many\nparams: { env: prod }\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  output_step: s0\n  steps:\n${steps}`,
  );
  expect(await outcomeOf('condition-many')).toMatchObject({ state: 'succeeded', output: null });
  expect(new Set(Object.values(await statesOf('condition-many')))).toEqual(new Set(['passed']));
});
