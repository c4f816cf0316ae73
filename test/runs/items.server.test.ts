/** Stages that are done for each item of a list, through a real Temporal server and the real activities; only the VM is a mock. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { cancelRun, startRun } from '../../client/runs/runs.ts';
import type { RunEvent, RunOutcome } from '../../domain/run/event.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import type { MockProgram } from '../../sandbox/mock/programs.ts';
import { emptyView, type StageView } from '../../store/run-view.ts';
import { project } from '../../store/projection.ts';
import { useTestRuns } from '../rig/servers/test-runs.ts';
import { ITEMS_WORKFLOW_TYPE, itemsWorkflowId, RUN_TASK_QUEUE } from '../../workflows/messages.ts';

/** How often each item was run, by run and item. */
const calls = new Map<string, number>();
let running = 0;
let mostRunning = 0;
let gateIsOpen = false;

const programs: Record<string, MockProgram> = {
  /** `item RUN`: prints what it finds of its item. A text with a program in it does that: `fail`, `flaky`, `gate`. */
  item: async ({ args: [run = ''], env, files, killed, write }) => {
    const item = env['VOIDBOX_ITEM'] ?? 'none';
    const file = files.find('/workspace/input.json');
    const key = `${run} ${env['VOIDBOX_ITEM_INDEX']}`;
    const call = (calls.get(key) ?? 0) + 1;
    calls.set(key, call);
    running += 1;
    mostRunning = Math.max(mostRunning, running);
    try {
      if (item.includes('gate')) while (!gateIsOpen) await sleep(20, undefined, { signal: killed });
      await sleep(10);
      if (item.includes('fail') || (item.includes('flaky') && call === 1)) {
        await write('stderr', `item ${item} went wrong\n`);
        return 3;
      }
      const found = file?.kind === 'file' ? Buffer.from(file.body).toString() : 'none';
      await write('stdout', JSON.stringify({ index: Number(env['VOIDBOX_ITEM_INDEX']), same: found === item }));
      return 0;
    } finally {
      running -= 1;
    }
  },
  /** `list N`: a list of N numbers in a member. */
  list: async ({ args: [count = '0'], write }) => {
    await write(
      'stdout',
      JSON.stringify({ found: { 'the-list': Array.from({ length: Number(count) }, (_, n) => n) } }),
    );
    return 0;
  },
};

const backend = createMockBackend({ programs });
const RECORDED = [
  'items',
  'items-retried',
  'items-failed',
  'items-cancelled',
  'items-fail-fast',
  'items-worker-change',
  'items-windows',
];
const runs = useTestRuns(backend, {
  recorded: RECORDED,
  windows: () => Promise.all(RECORDED.map((runId) => windowOf(runId))),
});
const { stopWorker, outcomeOf } = runs;

/** The first window of the stage `each`. */
async function windowOf(runId: string): Promise<string> {
  const { runId: executionId } = await runs.client.workflow.getHandle(runId).describe();
  return itemsWorkflowId(executionId, 'each', 0);
}

async function start(runId: string, keys: string, more = ''): Promise<void> {
  const spec = `
kind: workflow
name: ${runId}
sandbox: { mode: mock, isolation: none }
workflow:
  output_step: each
  steps:
    - { name: each, ${keys}, run: { program: item, args: [${runId}] } }
${more}`;
  await startRun(runs.client, { runId, request: { spec }, summary: `test ${runId}` });
}

async function run(runId: string, keys: string, more = ''): Promise<RunOutcome> {
  await start(runId, keys, more);
  return outcomeOf(runId);
}

const resultOf = async ({ output }: RunOutcome): Promise<unknown> => JSON.parse(await runs.stack.artifact(output!));

async function viewOf(runId: string): Promise<StageView> {
  const events: readonly RunEvent[] = await runs.stack.eventsOf(runId);
  return events.reduce(project, emptyView(runId)).stages.find(({ id }) => id === 'each')!;
}

async function untilRunning(runId: string, items: number): Promise<void> {
  while ([...calls.keys()].filter((key) => key.startsWith(`${runId} `)).length < items) await sleep(20);
}

test('a command runs for each item, and the results are in the order of the items', async () => {
  const outcome = await run('items', 'for_each: [a, { b: 1 }, [2], null], max_parallel: 2, retry: { max_attempts: 2 }');
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
  expect(await resultOf(outcome)).toEqual(
    ['a', { b: 1 }, [2], null].map((item, index) => ({ item, output: { index, same: true } })),
  );
  expect(await viewOf('items')).toMatchObject({
    state: 'succeeded',
    isolation: 'none',
    items: { total: 4, running: 0, succeeded: 4, failed: 0, failures: [] },
  });
});

test('the arguments of each command contain its own item, and only an item whose texts cannot be made fails', async () => {
  const spec = `
kind: workflow
name: x
sandbox: { mode: mock, isolation: none }
workflow:
  output_step: each
  steps:
    - { name: src, run: { program: echo, args: [of src] } }
    - name: each
      for_each: [{ name: a }, { name: { b: 1 } }, { name: '\${{ item_index }}; $(id)' }, { none: d }]
      allow_failures: 1
      retry: { max_attempts: 3 }
      run: { program: echo, args: ['\${{ item_index }} \${{ item.name }}', '\${{ stages.src.output.trim() }}'] }
`;
  await startRun(runs.client, { runId: 'items-texts', request: { spec }, summary: 'test items-texts' });
  const outcome = await outcomeOf('items-texts');
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
  expect(await resultOf(outcome)).toEqual([
    { item: { name: 'a' }, output: '0 a of src\n' },
    { item: { name: { b: 1 } }, output: '1 {"b":1} of src\n' },
    { item: { name: '${{ item_index }}; $(id)' }, output: '2 ${{ item_index }}; $(id) of src\n' },
    {
      item: { none: 'd' },
      failure: { code: 'stage/expression', message: expect.stringMatching(/`item.name`: no such key: name/) },
    },
  ]);
  const started = (await runs.stack.eventsOf('items-texts')).filter(({ body }) => body.type === 'stage-started');
  expect(started).toHaveLength(2 + 3);
});

test('the list may be in the output of an earlier stage, and no item starts before it', async () => {
  const outcome = await run(
    'items-of-a-stage',
    `for_each: 'stages["make-list"].json.found["the-list"]'`,
    '    - { name: make-list, run: { program: list, args: ["5"] } }\n',
  );
  expect(outcome).toMatchObject({ failure: null });
  expect(await resultOf(outcome)).toEqual(
    [0, 1, 2, 3, 4].map((item, index) => ({ item, output: { index, same: true } })),
  );
});

test('all windows of a list are open from the beginning: long items hold up none that others are in', async () => {
  gateIsOpen = false;
  const list = Array.from({ length: 2_501 }, () => 'gate');
  await start('items-windows', `for_each: ${JSON.stringify(list)}, max_parallel: 12`);
  await untilRunning('items-windows', 12);
  const itemsOfRun = [...calls.keys()].flatMap(
    (key) =>
      key
        .match(/^items-windows (\d+)$/)
        ?.slice(1)
        .map(Number) ?? [],
  );
  expect(itemsOfRun.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 1250, 1251, 1252, 1253, 1254, 1255]);
  await cancelRun(runs.client, 'items-windows');
  expect((await outcomeOf('items-windows')).state).toBe('cancelled');
});

test('as many items run at once as may be, also where each may be tried more often than one window has room for', async () => {
  gateIsOpen = false;
  const list = Array.from({ length: 60 }, () => 'gate');
  const keys = `for_each: ${JSON.stringify(list)}, max_parallel: 50, retry: { max_attempts: 97 }`;
  await start('items-many-attempts', keys);
  await untilRunning('items-many-attempts', 50);
  await cancelRun(runs.client, 'items-many-attempts');
  expect((await outcomeOf('items-many-attempts')).state).toBe('cancelled');
});

test('long items of a window hold up none that others are in', async () => {
  gateIsOpen = false;
  const list = Array.from({ length: 170 }, (_, item) => (item % 30 === 0 && item < 120 ? 'gate' : item));
  await start('items-long', `for_each: ${JSON.stringify(list)}, max_parallel: 12`);
  await untilRunning('items-long', 170);
  gateIsOpen = true;
  expect((await outcomeOf('items-long')).state).toBe('succeeded');
  gateIsOpen = false;
});

test('an empty list succeeds with an empty result', async () => {
  expect(await resultOf(await run('items-none', 'for_each: []'))).toEqual([]);
});

describe('items that fail', () => {
  test('fail the stage once all others are done, and the first is named by number and value', async () => {
    const outcome = await run('items-failed', 'for_each: [a, fail-b, c, fail-d]');
    expect(outcome).toMatchObject({
      state: 'failed',
      failedStage: 'each',
      failure: {
        code: 'stage/items-failed',
        message: expect.stringMatching(/^2 of 4 items failed; the first is item 1, "fail-b": .*exit.* 3/),
        stderrTail: expect.stringContaining('item "fail-b" went wrong'),
      },
    });
    expect(await viewOf('items-failed')).toMatchObject({
      state: 'failed',
      items: { total: 4, running: 0, succeeded: 2, failed: 2, failures: [{ item: 1 }, { item: 3 }] },
    });
  });

  test('do not matter up to the allowed number, and are in the result', async () => {
    const outcome = await run('items-allowed', 'for_each: [a, fail], allow_failures: 1');
    expect(await resultOf(outcome)).toEqual([
      { item: 'a', output: { index: 0, same: true } },
      { item: 'fail', failure: { code: 'stage/exit-nonzero', message: expect.any(String) } },
    ]);
  });

  test('are tried again as the author says', async () => {
    const outcome = await run('items-retried', 'for_each: [flaky, a], retry: { max_attempts: 2 }');
    expect(outcome.state).toBe('succeeded');
    expect([calls.get('items-retried 0'), calls.get('items-retried 1')]).toEqual([2, 1]);
    expect(await viewOf('items-retried')).toMatchObject({ items: { succeeded: 2, failed: 0, running: 0 } });
  });

  test('end the others at once where that is asked for', async () => {
    const outcome = await run('items-fail-fast', 'for_each: [gate, fail, a, b, c], max_parallel: 2, fail_fast: true');
    expect(outcome).toMatchObject({
      state: 'failed',
      failure: { code: 'stage/items-failed', message: expect.stringContaining('1 of 5 items failed; 4 did not end') },
    });
  });
});

function nested(levels: number): string {
  return `    - { name: src, run: { program: echo, args: ["${'['.repeat(levels)}${']'.repeat(levels)}"] } }\n`;
}

test('an item keeps the digits of its numbers and a key of any name', async () => {
  const items = '[1.0, {"id": 18446744073709551615, "__proto__": {"a": 1}}]'.replaceAll('"', '\\"');
  const outcome = await run(
    'items-digits',
    'for_each: stages.src.json',
    `    - { name: src, run: { program: echo, args: ["${items}"] } }\n`,
  );
  const printed = await runs.stack.artifact(outcome.output!);
  expect(printed).toContain('[{"item":1.0,');
  expect(printed).toContain('{"item":{"id":18446744073709551615,"__proto__":{"a":1}},');
});

test('an item of 200 levels is handed on', async () => {
  expect(await run('items-levels', 'for_each: stages.src.json', nested(201))).toMatchObject({ state: 'succeeded' });
});

test.each([
  ['is-none', '    - { name: src, run: { program: echo, args: ["{}"] } }\n', /is JSON and not a list/],
  ['is-text', '    - { name: src, run: { program: echo, args: ["a b"] } }\n', /is not JSON: .* it begins with "a b /],
  // The list is a level itself.
  ['is-deep', nested(202), /has an item of more than 200 levels/],
  ['is-bottomless', nested(50_000), /has an item of more than 200 levels/],
])('an output that %s of a list fails the stage that reads it', async (name, more, message) => {
  const outcome = await run(`items-${name}`, 'for_each: stages.src.json', more);
  expect(outcome).toMatchObject({
    state: 'failed',
    failedStage: 'each',
    failure: { code: 'stage/bad-items', message: expect.stringMatching(message) },
  });
});

test('10,001 items are refused, with the number', async () => {
  const outcome = await run(
    'items-too-many',
    `for_each: 'stages.src.json.found["the-list"]'`,
    '    - { name: src, run: { program: list, args: ["10001"] } }\n',
  );
  expect(outcome.failure).toMatchObject({ code: 'stage/bad-items', message: expect.stringContaining('10001 items') });
});

test('a cancelled run ends what its items run, and none is left', async () => {
  gateIsOpen = false;
  await start('items-cancelled', 'for_each: [gate-1, gate-2, gate-3], max_parallel: 2');
  await untilRunning('items-cancelled', 2);
  await cancelRun(runs.client, 'items-cancelled');
  expect((await outcomeOf('items-cancelled')).state).toBe('cancelled');
  expect(await viewOf('items-cancelled')).toMatchObject({ state: 'cancelled' });
  expect(calls.get('items-cancelled 2')).toBeUndefined();
  expect(running).toBe(0);
});

test('after a change of workers, no item is repeated', async () => {
  gateIsOpen = false;
  await start('items-worker-change', 'for_each: [a, gate, b], max_parallel: 2');
  await untilRunning('items-worker-change', 3);
  await stopWorker();
  gateIsOpen = true;
  await runs.startWorker();
  expect((await outcomeOf('items-worker-change')).state).toBe('succeeded');
  expect([0, 1, 2].map((item) => calls.get(`items-worker-change ${item}`))).toEqual([1, 1, 1]);
});

test('a window that a client terminates is started again, and finished items are not repeated', async () => {
  gateIsOpen = false;
  await start('items-terminated', 'for_each: [a, gate], max_parallel: 2');
  await untilRunning('items-terminated', 2);
  while ((await viewOf('items-terminated')).items?.succeeded !== 1) await sleep(20);
  await runs.client.workflow.getHandle(await windowOf('items-terminated')).terminate('test');
  gateIsOpen = true;
  const outcome = await outcomeOf('items-terminated');
  expect(outcome.state).toBe('succeeded');
  expect(calls.get('items-terminated 0')).toBe(1);
});

test("a stranger's window is refused, and its run hears nothing of it", async () => {
  gateIsOpen = false;
  await start('items-stranger', 'for_each: [gate], max_parallel: 1');
  await untilRunning('items-stranger', 1);
  const before = await runs.stack.eventsOf('items-stranger');
  const stage = {
    id: 'each',
    doing: 'run',
    scope: null,
    after: [],
    takes: [],
    timeoutMs: 1_000,
    retry: { maxAttempts: 1, backoffMs: 0 },
    deadline: null,
    each: { scope: 'each', retry: { maxAttempts: 1, backoffMs: 0 }, maxParallel: 1, failFast: false, allowFailures: 0 },
  };
  const end = await runs.client.workflow.execute(ITEMS_WORKFLOW_TYPE, {
    taskQueue: RUN_TASK_QUEUE,
    workflowId: 'items/stranger/0/each/0',
    args: [
      {
        runId: 'items-stranger',
        stage,
        from: 0,
        to: 1,
        behaviour: 1,
        recordsBoots: false,
        slots: 1,
        mostFailures: null,
        upstream: {},
        hostQueue: RUN_TASK_QUEUE,
        storeQueue: RUN_TASK_QUEUE,
      },
    ],
  });
  expect(end).toEqual({ succeeded: 0, failed: 1 });
  expect(await runs.stack.eventsOf('items-stranger')).toEqual(before);
  const client = runs.client.workflow;
  await expect(
    client.execute(ITEMS_WORKFLOW_TYPE, {
      taskQueue: RUN_TASK_QUEUE,
      workflowId: 'items/nothing',
      args: [{ runId: 7 }],
    }),
  ).rejects.toMatchObject({ cause: { type: 'call/refused' } });
  gateIsOpen = true;
  expect((await outcomeOf('items-stranger')).state).toBe('succeeded');
});
