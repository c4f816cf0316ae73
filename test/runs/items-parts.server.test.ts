/** Parts that are done for each item of a list, through a real Temporal server and the real activities; only the VM is a mock. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { cancelRun, startRun } from '../../client/runs/runs.ts';
import type { RunRequest } from '../../activities/contract.ts';
import { toWire } from '../../domain/plan/wire.ts';
import type { RunEvent, RunOutcome } from '../../domain/run/event.ts';
import { checkExpressions } from '../../domain/language/expression/check.ts';
import { compileText } from '../../domain/language/load.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import type { MockProgram } from '../../sandbox/mock/programs.ts';
import { emptyView, type StageView } from '../../store/run-view.ts';
import { project } from '../../store/projection.ts';
import { useTestRuns } from '../rig/servers/test-runs.ts';
import { itemsWorkflowId } from '../../workflows/messages.ts';

/** How often each command was started, by its words and its item. */
const starts = new Map<string, number>();
let running = 0;
let gateIsOpen = false;

const programs: Record<string, MockProgram> = {
  /**
   * Prints its words, its item and what it finds as its input and standard input. Its item and words decide what it does: an item
   * `fail` fails the words `two`, `flaky` fails once, `gate` waits in `two`.
   */
  say: async ({ args, env, files, stdin, killed, write }) => {
    const words = args.join(' ');
    const item = env['VOIDBOX_ITEM'] ?? 'none';
    const key = `${words} ${item}`;
    const call = (starts.get(key) ?? 0) + 1;
    starts.set(key, call);
    running += 1;
    try {
      if (words.includes('two') && item.includes('gate'))
        while (!gateIsOpen) await sleep(20, undefined, { signal: killed });
      if (words.includes('two') && (item.includes('fail') || (item.includes('flaky') && call === 1))) {
        await write('stderr', `${words} of ${item} went wrong\n`);
        return 3;
      }
      const file = files.find('/workspace/input.json');
      const input = file?.kind === 'file' ? ` <${Buffer.from(file.body).toString()}` : '';
      const read: Uint8Array[] = [];
      for await (const chunk of stdin) read.push(chunk);
      const piped = read.length === 0 ? '' : ` |${Buffer.concat(read).toString()}`;
      await write('stdout', `${words}[${env['VOIDBOX_ITEM_INDEX'] ?? '-'}]${input}${piped}`);
      return 0;
    } finally {
      running -= 1;
    }
  },
};

const backend = createMockBackend({ programs });

const RECORDED = [
  'item-parts',
  'item-parts-failed',
  'item-parts-steps',
  'item-parts-cancelled',
  'item-parts-worker-change',
  'item-parts-loop',
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

const MOCK = 'sandbox: { mode: mock, isolation: none }';

const say = (name: string, words = name): string => `name: ${name}, run: { program: say, args: [${words}] }`;
const pipeline = (boxes: readonly string[], more = ''): string =>
  `kind: pipeline\nname: p\n${MOCK}\npipeline:\n  boxes:\n${boxes.map((box) => `    - { ${box} }\n`).join('')}${more}`;
const workflow = (steps: readonly string[]): string =>
  `kind: workflow\nname: p\n${MOCK}\nworkflow:\n  steps:\n${steps.map((step) => `    - { ${step} }\n`).join('')}`;

/** A pipeline of these boxes; `./p.yaml` is the part. */
function requestOf(boxes: readonly string[], part: string): RunRequest {
  const { plan, diagnostics } = compileText(pipeline(boxes), 'x', {
    baseDir: '/x',
    checkExpression: checkExpressions,
    readSpec: () => ({ text: part }),
  });
  expect(diagnostics).toEqual([]);
  return { plan: toWire(plan!) };
}

async function start(runId: string, request: RunRequest): Promise<void> {
  await startRun(runs.client, { runId, request, summary: `test ${runId}` });
}

async function run(runId: string, boxes: readonly string[], part: string): Promise<RunOutcome> {
  await start(runId, requestOf(boxes, part));
  return outcomeOf(runId);
}

const resultOf = async ({ output }: RunOutcome): Promise<unknown> => JSON.parse(await runs.stack.artifact(output!));

async function viewOf(runId: string): Promise<readonly StageView[]> {
  const events: readonly RunEvent[] = await runs.stack.eventsOf(runId);
  return events.reduce(project, emptyView(runId)).stages;
}

async function eachOf(runId: string): Promise<StageView> {
  return (await viewOf(runId)).find(({ id }) => id === 'each')!;
}

const ONE_TWO = pipeline([say('one'), say('two')]);

test("a part runs for each item, its stages use each other's outputs, and results are in the order of the items", async () => {
  const outcome = await run(
    'item-parts',
    [say('before'), 'name: each, uses: ./p.yaml, for_each: [a, { b: 1 }], max_parallel: 1', say('after')],
    ONE_TWO,
  );
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
  const results = JSON.stringify([
    { item: 'a', output: 'two[0] <one[0] <"a"' },
    { item: { b: 1 }, output: 'two[1] <one[1] <{"b":1}' },
  ]);
  expect(await runs.stack.artifact(outcome.output!)).toBe(`after[-] <${results}`);
  expect((await viewOf('item-parts')).map(({ id, state }) => `${id} ${state}`)).toEqual([
    'before succeeded',
    'each succeeded',
    'after succeeded',
  ]);
  expect(await eachOf('item-parts')).toMatchObject({
    items: { total: 2, running: 0, succeeded: 2, failed: 0, failures: [] },
  });
});

test('texts of a part read the item, in arguments, a time and the message of an approval', async () => {
  await start(
    'item-parts-texts',
    requestOf(
      ['name: each, uses: ./p.yaml, for_each: [{ name: a, at: "1999-01-01T00:00:00Z" }]'],
      workflow([
        'name: past, wait: { until: "${{ item.at }}" }',
        'name: ask, approval: { message: "Merge ${{ item.name }} of ${{ item_index }}?", timeout: 1s, on_timeout: approve }, depends_on: [past]',
        'name: last, run: { program: say, args: ["${{ item.name }}"] }, depends_on: [ask]',
      ]),
    ),
  );
  expect(await outcomeOf('item-parts-texts')).toMatchObject({ state: 'succeeded', failure: null });
  const [{ output }] = (await resultOf(await outcomeOf('item-parts-texts'))) as [{ output: string }];
  expect(output).toMatch(/^a\[0\]/);
  const asked = (await runs.stack.eventsOf('item-parts-texts')).flatMap(({ body }) =>
    body.type === 'stage-asking' ? [body.question?.message] : [],
  );
  expect(asked).toEqual(['Merge a of 0?']);
});

test('steps of an item share its VM, read standard input, decide and wait', async () => {
  const outcome = await run(
    'item-parts-steps',
    ['name: each, uses: ./p.yaml, for_each: [a, b]'],
    workflow([
      say('one'),
      'name: two, run: { program: say, args: [two], stdin_from: one }',
      'name: pause, wait: { for: 1s }, depends_on: [two]',
      `name: past, wait: { until: "19\${{ size(stages.two.output) > 0 ? '99' : '' }}-01-01T00:00:00Z" }`,
      `${say('three')}, depends_on: [pause, past], when: 'stages.one.output.contains("\\"b\\"") && stages.two.exit_code == 0'`,
      'name: last, run: { program: say, args: [last], stdin_from: two }, depends_on: [three]',
    ]),
  );
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
  // The VM still contains the data that the first step got.
  expect(await resultOf(outcome)).toEqual([
    { item: 'a', output: 'last[0] <"a" |two[0] <"a" |one[0] <"a"' },
    { item: 'b', output: 'last[1] <"b" |two[1] <"b" |one[1] <"b"' },
  ]);
  expect([starts.get('three "a"'), starts.get('three "b"')]).toEqual([undefined, 1]);
  const vms = (await runs.stack.eventsOf('item-parts-steps')).flatMap(({ body }) =>
    body.type === 'vm-starting' || body.type === 'vm-stopped' ? [`${body.type} ${body.vmKey}`] : [],
  );
  expect(vms.toSorted()).toEqual(
    ['vm-starting', 'vm-stopped'].flatMap((type) =>
      [0, 1].map((item) => `${type} item-parts-steps/each._shared/each~${item}/0`),
    ),
  );
});

describe('failures of items', () => {
  test('are named with the value and the stage, and counted', async () => {
    const outcome = await run('item-parts-failed', ['name: each, uses: ./p.yaml, for_each: [a, fail-b, c]'], ONE_TWO);
    expect(outcome).toMatchObject({
      state: 'failed',
      failedStage: 'each',
      failure: {
        code: 'stage/items-failed',
        message: expect.stringMatching(/^1 of 3 items failed; the first is item 1, "fail-b": .*each\.two.*3/),
        stderrTail: expect.stringContaining('two of "fail-b" went wrong'),
      },
    });
    expect(await eachOf('item-parts-failed')).toMatchObject({
      state: 'failed',
      items: { total: 3, running: 0, succeeded: 2, failed: 1, failures: [{ item: 1 }] },
    });
  });

  test('do not matter up to the number that is allowed', async () => {
    const outcome = await run(
      'item-parts-allowed',
      ['name: each, uses: ./p.yaml, for_each: [a, fail], allow_failures: 1'],
      ONE_TWO,
    );
    expect(await resultOf(outcome)).toEqual([
      { item: 'a', output: 'two[0] <one[0] <"a"' },
      { item: 'fail', failure: { code: 'stage/exit-nonzero', message: expect.stringContaining('each.two') } },
    ]);
  });

  test('within a part are tolerated, tried again and answered as its stages say', async () => {
    const outcome = await run(
      'item-parts-tolerated',
      ['name: each, uses: ./p.yaml, for_each: [flaky, fail, a]'],
      workflow([
        say('one'),
        `${say('two')}, depends_on: [one], retry: { max_attempts: 2 }`,
        `${say('sorry')}, on_failure: [two]`,
      ]),
    );
    expect(outcome.failure?.message).toMatch(/^1 of 3 items failed; the first is item 1, "fail"/);
    expect([starts.get('two "flaky"'), starts.get('sorry "fail"'), starts.get('sorry "a"')]).toEqual([2, 1, undefined]);
  });
});

test('a loop in a part has visits of its own in each item', async () => {
  const outcome = await run(
    'item-parts-loop',
    ['name: each, uses: ./p.yaml, for_each: [a, b]'],
    pipeline(
      [say('one', 'one-of-loop')],
      "  stages: [{ type: loop, name: again, boxes: [one], until: 'stages.one.output.size() > 60', max_visits: 5 }]\n",
    ),
  );
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
  expect(starts.get('one-of-loop "a"')).toBeGreaterThan(1);
  expect(starts.get('one-of-loop "a"')).toBe(starts.get('one-of-loop "b"'));
});

test('a retry takes the results of all items together, or does all of them again', async () => {
  const request = requestOf(['name: each, uses: ./p.yaml, for_each: [r]', say('two', 'two-of-end')], ONE_TWO);
  await start('item-parts-first', request);
  expect((await outcomeOf('item-parts-first')).state).toBe('succeeded');
  const again = (from: string): RunRequest => ({
    ...request,
    origin: { runId: 'item-parts-first', kind: 'retry', from },
  });
  await start('item-parts-after', again('two'));
  expect((await outcomeOf('item-parts-after')).state).toBe('succeeded');
  expect(starts.get('one "r"')).toBe(1);
  await start('item-parts-again', again('each'));
  expect((await outcomeOf('item-parts-again')).state).toBe('succeeded');
  expect(starts.get('one "r"')).toBe(2);
  await start('item-parts-within', again('each.one'));
  expect((await outcomeOf('item-parts-within')).failure).toMatchObject({
    code: 'admit/invalid',
    message: expect.stringContaining('runs for each item of each: start from each'),
  });
});

test('a cancelled run ends what its items run, and begins nothing else of them', async () => {
  gateIsOpen = false;
  await start(
    'item-parts-cancelled',
    requestOf(['name: each, uses: ./p.yaml, for_each: [gate-x, gate-y, z], max_parallel: 2'], ONE_TWO),
  );
  while (!starts.has('two "gate-x"') || !starts.has('two "gate-y"')) await sleep(20);
  await cancelRun(runs.client, 'item-parts-cancelled');
  expect((await outcomeOf('item-parts-cancelled')).state).toBe('cancelled');
  expect(await eachOf('item-parts-cancelled')).toMatchObject({ state: 'cancelled' });
  expect(starts.has('one "z"')).toBe(false);
  expect(running).toBe(0);
});

test('after a change of workers, no work of an item is repeated', async () => {
  gateIsOpen = false;
  await start('item-parts-worker-change', requestOf(['name: each, uses: ./p.yaml, for_each: [gate-w, v]'], ONE_TWO));
  while (!starts.has('two "gate-w"') || !starts.has('two "v"')) await sleep(20);
  await stopWorker();
  gateIsOpen = true;
  await runs.startWorker();
  expect(await resultOf(await outcomeOf('item-parts-worker-change'))).toHaveLength(2);
  expect(['one "gate-w"', 'two "gate-w"', 'one "v"', 'two "v"'].map((key) => starts.get(key))).toEqual([1, 1, 1, 1]);
});
