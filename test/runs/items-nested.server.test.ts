/** Lists within items, through a real Temporal server and the real activities; only the VM is a mock. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { RunRequest } from '../../activities/contract.ts';
import { cancelRun, startRun } from '../../client/runs/runs.ts';
import { toWire } from '../../domain/plan/wire.ts';
import type { RunOutcome } from '../../domain/run/event.ts';
import type { InstancePath } from '../../domain/run/instance.ts';
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
  /** Prints the list that its item, a mapping, has as `of`. */
  list: async ({ env, write }) => {
    const item = JSON.parse(env['VOIDBOX_ITEM'] ?? '{}') as { readonly of?: unknown };
    await write('stdout', JSON.stringify(item.of ?? []));
    return 0;
  },
  /** Prints its words, its item and what it finds as its input. An item `fail` fails, `flaky` fails once, `gate` waits. */
  say: async ({ args, env, files, killed, write }) => {
    const words = args.join(' ');
    const item = env['VOIDBOX_ITEM'] ?? 'none';
    const key = `${words} ${item}`;
    const call = (starts.get(key) ?? 0) + 1;
    starts.set(key, call);
    running += 1;
    try {
      if (item.includes('gate')) while (!gateIsOpen) await sleep(20, undefined, { signal: killed });
      if (item.includes('fail') || (item.includes('flaky') && call === 1)) {
        await write('stderr', `${words} of ${item} went wrong\n`);
        return 3;
      }
      const file = files.find('/workspace/input.json');
      const input = file?.kind === 'file' ? ` <${Buffer.from(file.body).toString()}` : '';
      await write('stdout', `${words}[${env['VOIDBOX_ITEM_INDEX'] ?? '-'}]${input}`);
      return 0;
    } finally {
      running -= 1;
    }
  },
};

const backend = createMockBackend({ programs });

const RECORDED = ['nested', 'nested-parts', 'nested-failed', 'nested-cancelled', 'nested-worker-change'];
const runs = useTestRuns(backend, {
  recorded: RECORDED,
  windows: () =>
    Promise.all(
      RECORDED.flatMap((runId) => [
        windowOf(runId, 'outer'),
        windowOf(runId, 'outer.inner', [{ part: 'outer', item: 0 }]),
      ]),
    ),
});
const { stopWorker, outcomeOf } = runs;

/** Settles when the result of the first item of a list is stored. */
async function untilEnded(runId: string): Promise<void> {
  const ends = async (): Promise<number> =>
    (await runs.stack.eventsOf(runId)).filter(({ body }) => body.type === 'stage-finished').length;
  await expect.poll(ends).toBeGreaterThan(0);
}

/** The first window of a list. */
async function windowOf(runId: string, stage: string, instance: InstancePath = [], window = 0): Promise<string> {
  const { raw } = await runs.client.workflow.getHandle(runId).describe();
  return itemsWorkflowId(raw.workflowExecutionInfo!.firstRunId!, stage, window, instance);
}

const MOCK = 'sandbox: { mode: mock, isolation: none }';

const say = (name: string): string => `{ name: ${name}, run: { program: say, args: [${name}] } }`;
const inner = (more = 'max_parallel: 4'): string =>
  `{ name: inner, run: { program: say, args: [inner] }, for_each: stages.list.json, ${more} }`;
const LIST = '{ name: list, run: { program: list } }';

function requestOf(boxes: readonly string[], parts: Readonly<Record<string, readonly string[]>>): RunRequest {
  const of = Object.entries(parts).map(
    ([name, within]) => `  ${name}: { pipeline: { boxes: [${within.join(', ')}] } }\n`,
  );
  const text = `kind: pipeline\nname: p\n${MOCK}\nmax_parallel: 8\nparts:\n${of.join('')}pipeline:\n  boxes: [${boxes.join(', ')}]\n`;
  const { plan, diagnostics } = compileText(text, 'x', { baseDir: '/x', checkExpression: checkExpressions });
  expect(diagnostics).toEqual([]);
  return { plan: toWire(plan!) };
}

const outer = (items: string, more = ''): string => `{ name: outer, uses: p, for_each: ${items}${more} }`;

async function start(runId: string, request: RunRequest): Promise<void> {
  await startRun(runs.client, { runId, request, summary: `test ${runId}` });
}

async function run(
  runId: string,
  boxes: readonly string[],
  parts: Readonly<Record<string, readonly string[]>> = { p: [LIST, inner()] },
): Promise<RunOutcome> {
  await start(runId, requestOf(boxes, parts));
  return outcomeOf(runId);
}

const resultOf = async ({ output }: RunOutcome): Promise<unknown> => JSON.parse(await runs.stack.artifact(output!));

async function outerOf(runId: string): Promise<StageView> {
  const events = await runs.stack.eventsOf(runId);
  return events.reduce(project, emptyView(runId)).stages.find(({ id }) => id === 'outer')!;
}

const ended = (item: unknown, output: unknown) => ({ item, output });

test('each item has a list of its own, whose results are in the output of the item in their order', async () => {
  const outcome = await run('nested', [outer('[{ of: [1, 2, 3] }, { of: [] }, { of: [x] }]'), say('after')]);
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
  const printed = await runs.stack.artifact(outcome.output!);
  expect(JSON.parse(printed.slice('after[-] <'.length))).toEqual([
    ended({ of: [1, 2, 3] }, [ended(1, 'inner[0] <1'), ended(2, 'inner[1] <2'), ended(3, 'inner[2] <3')]),
    ended({ of: [] }, []),
    ended({ of: ['x'] }, [ended('x', 'inner[0] <"x"')]),
  ]);
  expect(await outerOf('nested')).toMatchObject({
    state: 'succeeded',
    items: { total: 3, running: 0, succeeded: 3, failed: 0, within: { 'outer.inner': { total: 4, succeeded: 4 } } },
  });
  const keys = (await runs.stack.eventsOf('nested')).flatMap(({ body }) =>
    body.type === 'stage-finished' && body.stage === 'outer.inner' ? [body.execKey] : [],
  );
  expect(keys).toEqual(
    expect.arrayContaining(['outer.inner/outer~0/1', 'outer.inner/outer~2~outer.inner~0/1', 'outer.inner/outer~1/1']),
  );
});

test('lists may be four deep, and parts at each depth share nothing with the parts next to them', async () => {
  const outcome = await run('nested-parts', [outer('[a, b]')], {
    p: [say('one'), '{ name: inner, uses: q, for_each: [1, 2], max_parallel: 2 }'],
    q: [say('two'), '{ name: in, uses: r, for_each: [3], max_parallel: 2 }'],
    r: ['{ name: at, run: { program: say, args: [at] }, for_each: [4, 5], max_parallel: 2 }'],
  });
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
  const deepest = [ended(3, [ended(4, 'at[0] <4'), ended(5, 'at[1] <5')])];
  const within = [ended(1, deepest), ended(2, deepest)];
  expect(await resultOf(outcome)).toEqual([ended('a', within), ended('b', within)]);
  expect(starts.get('two 1')).toBe(2);
  expect(await outerOf('nested-parts')).toMatchObject({
    items: {
      within: { 'outer.inner': { total: 4 }, 'outer.inner.in': { total: 4 }, 'outer.inner.in.at': { total: 8 } },
    },
  });
});

describe('failures', () => {
  test('name the items of all lists around them', async () => {
    const outcome = await run('nested-failed', [outer('[{ of: [1] }, { of: [2, fail-x] }]')]);
    expect(outcome).toMatchObject({
      state: 'failed',
      failedStage: 'outer',
      failure: {
        code: 'stage/items-failed',
        message: expect.stringMatching(
          /^1 of 2 items failed; the first is item 1, \{"of":\[2,"fail-x"\]\}: outer\[1\]\.inner: 1 of 2 items failed; the first is item 1, "fail-x": .* code 3/,
        ),
        stderrTail: expect.stringContaining('inner of "fail-x" went wrong'),
      },
    });
    expect(await outerOf('nested-failed')).toMatchObject({
      items: { succeeded: 1, failed: 1, within: { 'outer.inner': { total: 3, succeeded: 2, failed: 1, running: 0 } } },
    });
  });

  test('are allowed and tried again in each list separately', async () => {
    const outcome = await run(
      'nested-allowed',
      [outer('[{ of: [flaky-1, fail-1] }, { of: [fail-2, fail-3] }]', ', allow_failures: 1')],
      { p: [LIST, inner('retry: { max_attempts: 2 }, allow_failures: 1')] },
    );
    expect(outcome).toMatchObject({ state: 'succeeded' });
    expect(await resultOf(outcome)).toEqual([
      ended({ of: ['flaky-1', 'fail-1'] }, [
        ended('flaky-1', 'inner[0] <"flaky-1"'),
        { item: 'fail-1', failure: { code: 'stage/exit-nonzero', message: expect.any(String) } },
      ]),
      {
        item: { of: ['fail-2', 'fail-3'] },
        failure: { code: 'stage/items-failed', message: expect.stringContaining('2 of 2') },
      },
    ]);
    expect(starts.get('inner "flaky-1"')).toBe(2);
  });

  test('a failure for an output that is not a list belongs to the item', async () => {
    const outcome = await run('nested-no-list', [outer('[{ of: 7 }]')]);
    expect(outcome.failure).toMatchObject({
      code: 'stage/items-failed',
      message: expect.stringContaining(
        'the output of outer.list, which `for_each` reads, is JSON and not a list (stage/bad-items)',
      ),
    });
  });

  test('a failure for a list that is too long names the limit', async () => {
    // One item may take 100 attempts and three lost VMs: 29 items in each of 14 windows.
    const many = inner('max_parallel: 4, retry: { max_attempts: 100 }');
    const outcome = await run('nested-too-long', [outer(`[{ of: [${'0, '.repeat(406)}0] }]`)], { p: [LIST, many] });
    expect(outcome.failure?.message).toContain('is a list of 407 items; at most 406 are allowed (stage/bad-items)');
    expect(starts.has('inner 0')).toBe(false);
  });
});

test('a list of an item has several windows where one does not hold all', async () => {
  const many = inner('max_parallel: 4, retry: { max_attempts: 100 }');
  const values = Array.from({ length: 64 }, (_, at) => 1_000 + at);
  const outcome = await run('nested-windows', [outer(`[{ of: [${values.join(', ')}] }]`)], { p: [LIST, many] });
  const [only] = (await resultOf(outcome)) as readonly { readonly output: readonly { readonly item: number }[] }[];
  expect(only!.output.map(({ item }) => item)).toEqual(values);
  expect(values.every((value) => starts.get(`inner ${value}`) === 1)).toBe(true);
  const third = await windowOf('nested-windows', 'outer.inner', [{ part: 'outer', item: 0 }], 2);
  expect(await runs.client.workflow.getHandle(third).describe()).toMatchObject({
    status: { name: 'COMPLETED' },
  });
});

test('a cancelled run ends what the lists of its items run, and begins nothing else of them', async () => {
  gateIsOpen = false;
  const request = requestOf(
    [outer('[{ of: [gate-c1, gate-c2, c3] }, { of: [gate-c4] }, { of: [c5] }]', ', max_parallel: 2')],
    {
      p: [LIST, inner('max_parallel: 2')],
    },
  );
  await start('nested-cancelled', request);
  while (!['gate-c1', 'gate-c2', 'gate-c4'].every((item) => starts.has(`inner "${item}"`))) await sleep(20);
  await cancelRun(runs.client, 'nested-cancelled');
  expect((await outcomeOf('nested-cancelled')).state).toBe('cancelled');
  expect(await outerOf('nested-cancelled')).toMatchObject({
    state: 'cancelled',
    items: { running: 0, within: { 'outer.inner': { running: 0 } } },
  });
  expect([starts.has('inner "c3"'), starts.has('inner "c5"'), running]).toEqual([false, false, 0]);
});

test('a terminated run takes the windows at every depth with it', async () => {
  gateIsOpen = false;
  await start('nested-terminated', requestOf([outer('[{ of: [gate-t] }]')], { p: [LIST, inner()] }));
  while (!starts.has('inner "gate-t"')) await sleep(20);
  await runs.client.workflow.getHandle('nested-terminated').terminate('test');
  const within = await windowOf('nested-terminated', 'outer.inner', [{ part: 'outer', item: 0 }]);
  await expect
    .poll(async () => (await runs.client.workflow.getHandle(within).describe()).status.name, {
      timeout: 20_000,
    })
    .toBe('TERMINATED');
  gateIsOpen = true;
});

test('after a change of workers, no work of a list within an item is repeated', async () => {
  gateIsOpen = false;
  await start(
    'nested-worker-change',
    requestOf([outer('[{ of: [gate-w, w1] }, { of: [w2] }]')], { p: [LIST, inner()] }),
  );
  while (!['gate-w', 'w1', 'w2'].every((item) => starts.has(`inner "${item}"`))) await sleep(20);
  await stopWorker();
  gateIsOpen = true;
  await runs.startWorker();
  const outcome = await outcomeOf('nested-worker-change');
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
  expect(['gate-w', 'w1', 'w2'].map((item) => starts.get(`inner "${item}"`))).toEqual([1, 1, 1]);
});

test('if only an inner window is terminated, it is started again, and repeats nothing that had ended', async () => {
  gateIsOpen = false;
  await start('nested-window-terminated', requestOf([outer('[{ of: [u1, gate-u] }]')], { p: [LIST, inner()] }));
  while (!starts.has('inner "u1"') || !starts.has('inner "gate-u"')) await sleep(20);
  await untilEnded('nested-window-terminated');
  const within = await windowOf('nested-window-terminated', 'outer.inner', [{ part: 'outer', item: 0 }]);
  await runs.client.workflow.getHandle(within).terminate('test');
  gateIsOpen = true;
  expect(await outcomeOf('nested-window-terminated')).toMatchObject({ state: 'succeeded' });
  expect(starts.get('inner "u1"')).toBe(1);
});

test('a run that is reset to its start does not repeat finished work', async () => {
  gateIsOpen = false;
  await start('nested-reset', requestOf([outer('[{ of: [v1, gate-v] }]')], { p: [LIST, inner()] }));
  while (!starts.has('inner "v1"') || !starts.has('inner "gate-v"')) await sleep(20);
  await untilEnded('nested-reset');
  const { client } = runs.stack.runs;
  const { runId: executionId } = await client.workflow.getHandle('nested-reset').describe();
  await client.workflowService.resetWorkflowExecution({
    namespace: client.options.namespace,
    workflowExecution: { workflowId: 'nested-reset', runId: executionId },
    reason: 'test',
    requestId: 'nested-reset',
    workflowTaskFinishEventId: 4 as never,
  });
  gateIsOpen = true;
  const outcome = await outcomeOf('nested-reset');
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
  expect(await resultOf(outcome)).toEqual([
    ended({ of: ['v1', 'gate-v'] }, [ended('v1', 'inner[0] <"v1"'), ended('gate-v', 'inner[1] <"gate-v"')]),
  ]);
  expect(starts.get('inner "v1"')).toBe(1);
});
