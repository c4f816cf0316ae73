/** Questions of items, through a real Temporal server and the real activities; only the VM is a mock. */
import { expect, test } from 'vitest';
import { AnswerError, answerStage, listAskingStages } from '../../client/runs/answers.ts';
import { proveAnswer } from '../../app/answers/prove-answer.ts';
import type { Machine } from '../../app/machine.ts';
import { cancelRun, startRun } from '../../client/runs/runs.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { checkExpressions } from '../../domain/language/expression/check.ts';
import { compileText } from '../../domain/language/load.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { openQuestionsOf } from '../../store/open-questions.ts';
import { useTestRuns } from '../rig/servers/test-runs.ts';
import { itemsWorkflowId } from '../../workflows/messages.ts';

const ships = new Map<string, number>();

const backend = createMockBackend({
  programs: {
    /** Prints its item. */
    ship: async ({ env, write }) => {
      const item = env['VOIDBOX_ITEM'] ?? 'none';
      ships.set(item, (ships.get(item) ?? 0) + 1);
      await write('stdout', `shipped ${item}`);
      return 0;
    },
  },
});

const RECORDED = ['ask-items', 'ask-items-cancelled', 'ask-items-worker-change'];
const runs = useTestRuns(backend, {
  recorded: RECORDED,
  windows: () => Promise.all(RECORDED.map((runId) => windowOf(runId))),
});
const { stopWorker, outcomeOf, viewOf } = runs;

const OK = "{ name: ok, approval: { message: 'Ship it?', fields: [{ name: size, type: number, required: false }] } }";
const SHIP = '{ name: ship, run: { program: ship } }';
const each = (items: string, more = ', max_parallel: 4'): string =>
  `{ name: each, uses: p, for_each: ${items}${more} }`;

async function start(
  runId: string,
  boxes: readonly string[],
  parts: Readonly<Record<string, readonly string[]>> = { p: [OK, SHIP] },
  stages = '',
): Promise<void> {
  const of = Object.entries(parts).map(([name, all]) => `  ${name}: { pipeline: { boxes: [${all.join(', ')}] } }\n`);
  const text = `kind: pipeline\nname: p\nsandbox: { mode: mock, isolation: none }\nparts:\n${of.join('')}pipeline:\n  boxes: [${boxes.join(', ')}]\n${stages}`;
  const { plan, diagnostics } = compileText(text, 'x', { baseDir: '/x', checkExpression: checkExpressions });
  expect(diagnostics).toEqual([]);
  await startRun(runs.client, { runId, request: { plan: toWire(plan!) }, summary: `test ${runId}` });
}

const asking = (runId: string): Promise<readonly string[]> => listAskingStages(runs.client, runId);

async function windowOf(runId: string): Promise<string> {
  const { raw } = await runs.client.workflow.getHandle(runId).describe();
  return itemsWorkflowId(raw.workflowExecutionInfo!.firstRunId!, 'each', 0);
}

async function waitFor(runId: string, names: readonly string[]): Promise<void> {
  await expect.poll(async () => (await asking(runId)).toSorted(), { timeout: 20_000 }).toEqual(names);
}

const approve = (runId: string, stage: string, more: object = {}) =>
  answerStage(runs.client, runId, { stage, decision: 'approve', by: 'ada', ...more });

test('each item asks on its own, is answered by its name, and continues without the others', async () => {
  await start('ask-items', [each('[a, b, c]', ', max_parallel: 4, allow_failures: 1')]);
  await waitFor('ask-items', ['each[0].ok', 'each[1].ok', 'each[2].ok']);
  const receipt = await approve('ask-items', 'each[1].ok', { fields: { size: 3 } });
  expect(receipt).toMatchObject({ stage: 'each[1].ok', attempt: 1, decision: 'approve', by: 'ada' });
  await expect.poll(() => ships.get('"b"'), { timeout: 10_000 }).toBe(1);
  // The other items still wait, and the view of the run shows this. They began to wait in any order.
  await expect
    .poll(async () =>
      openQuestionsOf(await viewOf('ask-items'))
        .map(({ name, question }) => [name, question?.message, question?.item])
        .toSorted(),
    )
    .toEqual([
      ['each[0].ok', 'Ship it?', '"a"'],
      ['each[2].ok', 'Ship it?', '"c"'],
    ]);
  // The same answer gets the same receipt, another answer is refused with the recorded one.
  expect(await approve('ask-items', 'each[1].ok', { fields: { size: 3 } })).toEqual(receipt);
  await expect(approve('ask-items', 'each[1].ok', { by: 'eve' })).rejects.toThrow('each[1].ok was approved by ada');
  await expect(approve('ask-items', 'each[0].ok', { fields: { size: 'x' } })).rejects.toThrow('size');
  await expect(approve('ask-items', 'each[3].ok')).rejects.toThrow('waiting: each[0].ok, each[2].ok');
  await expect(approve('ask-items', 'none[0].ok')).rejects.toBeInstanceOf(AnswerError);
  await answerStage(runs.client, 'ask-items', {
    stage: 'each[0].ok',
    decision: 'reject',
    by: 'ada',
    comment: 'no',
  });
  await approve('ask-items', 'each[2].ok');
  const outcome = await outcomeOf('ask-items');
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
  expect(JSON.parse(await runs.stack.artifact(outcome.output!))).toMatchObject([
    {
      item: 'a',
      failure: { code: 'stage/rejected', message: expect.stringContaining('stage each[0].ok was rejected by ada: no') },
    },
    { item: 'b', output: 'shipped "b"' },
    { item: 'c', output: 'shipped "c"' },
  ]);
  expect(openQuestionsOf(await viewOf('ask-items'))).toEqual([]);
});

test('a question of an item takes only an answer with its own proof, not with the proof of another item', async () => {
  const strict = '{ name: ok, approval: { message: "Ship it?", self_approval: false } }';
  await runs.stack.stores.marks.put('ask-proven', 'client', { baseDir: '/x' });
  await start('ask-proven', [each('[a, b]')], { p: [strict] });
  await waitFor('ask-proven', ['each[0].ok', 'each[1].ok']);
  const context = { stores: () => Promise.resolve(runs.stack.stores) } as unknown as Machine;
  const findOpen = async (name: string) =>
    openQuestionsOf(await viewOf('ask-proven')).find((each) => each.name === name);
  const proveFor = async (name: string): Promise<void> => {
    // The event of a question follows the workflow's own state.
    await expect.poll(() => findOpen(name), { timeout: 10_000 }).toBeDefined();
    const question = (await findOpen(name))!;
    const given = { decision: 'approve', by: 'ada' } as const;
    await proveAnswer({ kind: 'token', name: 'ada', groups: [] }, { runId: 'ask-proven', question, given }, context);
  };
  await proveFor('each[0].ok');
  await expect(approve('ask-proven', 'each[1].ok')).rejects.toThrow('nothing proves who sent the answer');
  expect(await approve('ask-proven', 'each[0].ok')).toMatchObject({ verified: true });
  await proveFor('each[1].ok');
  expect(await approve('ask-proven', 'each[1].ok')).toMatchObject({ verified: true });
  expect(await outcomeOf('ask-proven')).toMatchObject({ state: 'succeeded' });
});

test('a question that is the whole of an item has its answer as its output, and a deadline', async () => {
  const timed = '{ name: ok, approval: { message: Go?, timeout: 1s, on_timeout: approve } }';
  await start('ask-items-deadline', [each('[1, 2]')], { p: [timed] });
  const outcome = await outcomeOf('ask-items-deadline');
  expect(outcome).toMatchObject({ state: 'succeeded' });
  expect(JSON.parse(await runs.stack.artifact(outcome.output!))).toMatchObject([
    { item: 1, output: { approved: true, timedOut: true } },
    { item: 2, output: { approved: true, timedOut: true } },
  ]);
});

test('lists within items, and lists of a later visit, ask under names of their own', async () => {
  await start('ask-nested', [each('[[x, y]]')], {
    p: ['{ name: all, uses: q, for_each: [1, 2] }'],
    q: [OK],
  });
  await waitFor('ask-nested', ['each[0].all[0].ok', 'each[0].all[1].ok']);
  for (const name of await asking('ask-nested')) await approve('ask-nested', name);
  expect(await outcomeOf('ask-nested')).toMatchObject({ state: 'succeeded' });

  await start(
    'ask-visits',
    [each('[1]')],
    undefined,
    '  stages: [{ type: loop, name: rounds, boxes: [each], until: "false", max_visits: 2, on_limit: pass }]\n',
  );
  await waitFor('ask-visits', ['each[0].ok']);
  await approve('ask-visits', 'each[0].ok');
  await waitFor('ask-visits', ['each#2[0].ok']);
  await approve('ask-visits', 'each#2[0].ok');
  expect(await outcomeOf('ask-visits')).toMatchObject({ state: 'succeeded' });
});

test('another worker continues to wait, and accepts the answer', async () => {
  ships.clear();
  await start('ask-items-worker-change', [each('[d, e]')]);
  await waitFor('ask-items-worker-change', ['each[0].ok', 'each[1].ok']);
  await approve('ask-items-worker-change', 'each[0].ok');
  await stopWorker();
  await runs.startWorker();
  await approve('ask-items-worker-change', 'each[1].ok');
  expect(await outcomeOf('ask-items-worker-change')).toMatchObject({ state: 'succeeded' });
  expect([ships.get('"d"'), ships.get('"e"')]).toEqual([1, 1]);
});

test('a cancel takes the questions back', async () => {
  await start('ask-items-cancelled', [each('[f, g]')]);
  await waitFor('ask-items-cancelled', ['each[0].ok', 'each[1].ok']);
  await cancelRun(runs.client, 'ask-items-cancelled');
  expect(await outcomeOf('ask-items-cancelled')).toMatchObject({ state: 'cancelled' });
  expect(openQuestionsOf(await viewOf('ask-items-cancelled'))).toEqual([]);
  await expect(approve('ask-items-cancelled', 'each[0].ok')).rejects.toMatchObject({ kind: 'ended' });
});
