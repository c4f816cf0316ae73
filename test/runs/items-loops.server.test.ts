/** Lists in loops, through a real Temporal server and the real activities; only the VM is a mock. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { cancelRun, startRun } from '../../client/runs/runs.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { checkExpressions } from '../../domain/language/expression/check.ts';
import { compileText } from '../../domain/language/load.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import type { MockProgram } from '../../sandbox/mock/programs.ts';
import { emptyView, type StageView } from '../../store/run-view.ts';
import { project } from '../../store/projection.ts';
import { useTestRuns } from '../rig/servers/test-runs.ts';
import { itemsWorkflowId } from '../../workflows/messages.ts';

/** How often each command was started, by its words, its visit and its item. */
const starts = new Map<string, number>();
let running = 0;
let gateIsOpen = false;

function inputOf(files: Parameters<MockProgram>[0]['files']): string {
  const file = files.find('/workspace/input.json');
  return file?.kind === 'file' ? Buffer.from(file.body).toString() : '';
}

const programs: Record<string, MockProgram> = {
  /** Prints a list of one mapping more than the visit before it counted. */
  list: async ({ files, write }) => {
    const count = (Number(inputOf(files)) || 0) + 1;
    await write('stdout', JSON.stringify(Array.from({ length: count }, (_, at) => ({ visit: count, at }))));
    return 0;
  },
  /** Prints how many items its input, a list of results, has. */
  count: async ({ files, write }) => {
    await write('stdout', String((JSON.parse(inputOf(files)) as readonly unknown[]).length));
    return 0;
  },
  /** Prints its words and its item. `fail:V`, `flaky:V` and `gate:V` fail, fail once and wait in visit V, of its first item. */
  say: async ({ args, env, killed, write }) => {
    const [words, how = ''] = args;
    const item = env['VOIDBOX_ITEM'] ?? 'none';
    const key = `${words} ${item}`;
    const call = (starts.get(key) ?? 0) + 1;
    starts.set(key, call);
    const [what, visit] = how.split(':');
    const isIt = item.includes(`"visit":${visit},"at":0`);
    running += 1;
    try {
      if (isIt && what === 'gate') while (!gateIsOpen) await sleep(20, undefined, { signal: killed });
      if (isIt && (what === 'fail' || (what === 'flaky' && call === 1))) return 3;
      await write('stdout', `${words} ${item}`);
      return 0;
    } finally {
      running -= 1;
    }
  },
};

const RECORDED = ['loop-items', 'loop-parts', 'loop-items-failed', 'loop-items-cancelled', 'loop-items-worker-change'];
const runs = useTestRuns(createMockBackend({ programs }), {
  recorded: RECORDED,
  windows: () => Promise.all([windowOf('loop-items', 'work', 2), windowOf('loop-in-item', 'outer', 1)]),
});
const { stopWorker, outcomeOf } = runs;

/** The first window of the list that a stage of the run makes in a visit. */
async function windowOf(runId: string, stage: string, visit: number): Promise<string> {
  const { raw } = await runs.client.workflow.getHandle(runId).describe();
  return itemsWorkflowId(raw.workflowExecutionInfo!.firstRunId!, stage, 0, [], visit);
}

const LIST = '{ name: list, run: { program: list } }';
const COUNT = '{ name: count, run: { program: count } }';
const work = (how = '', more = ''): string =>
  `{ name: work, run: { program: say, args: [work, "${how}"] }, for_each: stages.list.json, max_parallel: 2${more} }`;
const rounds = (boxes: string, until = 'stages.count.json >= 3', more = ''): string =>
  `{ type: loop, name: rounds, boxes: [${boxes}], until: "${until}", max_visits: 5${more} }`;
const ROUNDS = rounds('list, work, count');

/** @param parts  each with its boxes and, where these are in loops, its stages */
async function start(
  runId: string,
  boxes: readonly string[],
  stages: string,
  parts: Readonly<Record<string, readonly [boxes: string, stages?: string]>> = {},
): Promise<void> {
  const of = Object.entries(parts).map(
    ([name, [within, order]]) =>
      `  ${name}: { pipeline: { boxes: [${within}]${order === undefined ? '' : `, stages: [${order}]`} } }\n`,
  );
  const text = `kind: pipeline\nname: p\nsandbox: { mode: mock, isolation: none }\n${of.length === 0 ? '' : `parts:\n${of.join('')}`}pipeline:\n  boxes: [${boxes.join(', ')}]\n  stages: [${stages}]\n`;
  const { plan, diagnostics } = compileText(text, 'x', { baseDir: '/x', checkExpression: checkExpressions });
  expect(diagnostics).toEqual([]);
  await startRun(runs.client, { runId, request: { plan: toWire(plan!) }, summary: `test ${runId}` });
}

async function stageOf(runId: string, id: string): Promise<StageView> {
  const events = await runs.stack.eventsOf(runId);
  return events.reduce(project, emptyView(runId)).stages.find((stage) => stage.id === id)!;
}

/** Exec keys under which commands have ended, of one stage. */
async function keysOf(runId: string, stage: string): Promise<readonly string[]> {
  const events = await runs.stack.eventsOf(runId);
  return events
    .flatMap(({ body }) => (body.type === 'stage-finished' && body.stage === stage ? [body.execKey] : []))
    .toSorted();
}

test('each visit makes a list of its own, whose items have names of their own', async () => {
  await start('loop-items', [LIST, work(), COUNT], ROUNDS);
  const outcome = await outcomeOf('loop-items');
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
  expect(await runs.stack.artifact(outcome.output!)).toBe('3');
  expect(await keysOf('loop-items', 'work')).toEqual([
    'work/0/1',
    'work/0/2',
    'work/0/3',
    'work/work~0.2/1',
    'work/work~0.3/1',
    'work/work~0/1',
    'work/work~1.2/1',
    'work/work~1.3/1',
    'work/work~2.3/1',
  ]);
  // Those of the latest visit.
  expect((await stageOf('loop-items', 'work')).items).toMatchObject({ total: 3, succeeded: 3, failed: 0, running: 0 });
});

test('a list that is written in the spec is done again in each visit, as the first stage of its loop', async () => {
  const first = '{ name: first, run: { program: say, args: [first] }, for_each: [1, 2] }';
  await start(
    'loop-inline',
    [first],
    '{ type: loop, name: l, boxes: [first], until: "false", max_visits: 2, on_limit: pass }',
  );
  const outcome = await outcomeOf('loop-inline');
  expect(outcome).toMatchObject({ state: 'succeeded' });
  expect(JSON.parse(await runs.stack.artifact(outcome.output!))).toEqual([
    { item: 1, output: 'first 1' },
    { item: 2, output: 'first 2' },
  ]);
  expect(starts.get('first 1')).toBe(2);
});

test('parts are done for each item of each visit, in a VM that the steps of an item share', async () => {
  await start('loop-parts', [LIST, '{ name: work, uses: p, for_each: stages.list.json }', COUNT], ROUNDS, {
    p: ['{ name: a, run: { program: say, args: [a] } }, { name: b, run: { program: say, args: [b] } }'],
  });
  expect(await outcomeOf('loop-parts')).toMatchObject({ state: 'succeeded', failure: null });
  expect(await keysOf('loop-parts', 'work.b')).toEqual([
    'work.b/work~0.2/1',
    'work.b/work~0.3/1',
    'work.b/work~0/1',
    'work.b/work~1.2/1',
    'work.b/work~1.3/1',
    'work.b/work~2.3/1',
  ]);
});

test('a list in a loop of an item', async () => {
  await start('loop-in-item', ['{ name: outer, uses: p, for_each: [0, 1] }'], '{ type: box, name: outer }', {
    p: [`${LIST}, ${work()}, ${COUNT}`, ROUNDS],
  });
  const outcome = await outcomeOf('loop-in-item');
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
  expect(JSON.parse(await runs.stack.artifact(outcome.output!))).toEqual([
    { item: 0, output: 3 },
    { item: 1, output: 3 },
  ]);
  expect((await keysOf('loop-in-item', 'outer.work')).filter((key) => key.includes('outer~0'))).toEqual([
    'outer.work/outer~0/1',
    'outer.work/outer~0/2',
    'outer.work/outer~0/3',
    'outer.work/outer~0~outer.work~0.2/1',
    'outer.work/outer~0~outer.work~0.3/1',
    'outer.work/outer~0~outer.work~0/1',
    'outer.work/outer~0~outer.work~1.2/1',
    'outer.work/outer~0~outer.work~1.3/1',
    'outer.work/outer~0~outer.work~2.3/1',
  ]);
});

test('a failed item of a later visit fails the run, and is tried again if its stage has `retry`', async () => {
  await start('loop-items-failed', [LIST, work('fail:2', ', retry: { max_attempts: 2 }'), COUNT], ROUNDS);
  const outcome = await outcomeOf('loop-items-failed');
  expect(outcome).toMatchObject({ state: 'failed', failedStage: 'work' });
  expect(outcome.failure!.code).toBe('stage/items-failed');
  expect(outcome.failure!.message).toContain('1 of 2 items failed; the first is item 0, {"visit":2,"at":0}');
  expect(await keysOf('loop-items-failed', 'work')).toContain('work/work~0.2/2');

  await start('loop-items-flaky', [LIST, work('flaky:2', ', retry: { max_attempts: 2 }'), COUNT], ROUNDS);
  expect(await outcomeOf('loop-items-flaky')).toMatchObject({ state: 'succeeded' });
  const view = await stageOf('loop-items-flaky', 'work');
  expect(view.items).toMatchObject({ total: 3, failed: 0, failures: [] });
});

test('another worker continues in the middle of a visit, and repeats no work', async () => {
  gateIsOpen = false;
  starts.clear();
  await start('loop-items-worker-change', [LIST, work('gate:2'), COUNT], ROUNDS);
  await expect.poll(() => running, { timeout: 20_000 }).toBe(1);
  await expect.poll(() => starts.get('work {"visit":2,"at":1}'), { timeout: 20_000 }).toBe(1);
  await stopWorker();
  await runs.startWorker();
  gateIsOpen = true;
  expect(await outcomeOf('loop-items-worker-change')).toMatchObject({ state: 'succeeded' });
  expect(starts.get('work {"visit":1,"at":0}')).toBe(1);
  expect(starts.get('work {"visit":2,"at":1}')).toBe(1);
  expect(starts.get('work {"visit":3,"at":2}')).toBe(1);
});

test('a cancel ends the items of the visit under way', async () => {
  gateIsOpen = false;
  await start('loop-items-cancelled', [LIST, work('gate:2'), COUNT], ROUNDS);
  await expect.poll(() => running, { timeout: 20_000 }).toBe(1);
  await cancelRun(runs.client, 'loop-items-cancelled');
  expect(await outcomeOf('loop-items-cancelled')).toMatchObject({ state: 'cancelled' });
  await expect.poll(() => running, { timeout: 10_000 }).toBe(0);
  expect((await stageOf('loop-items-cancelled', 'work')).state).toBe('cancelled');
});
