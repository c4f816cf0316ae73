/** Loops, through a real Temporal server and the real activities; only the VM is a mock. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { answerStage } from '../../client/runs/answers.ts';
import { cancelRun, startRun } from '../../client/runs/runs.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { checkExpressions } from '../../domain/language/expression/check.ts';
import { compileText } from '../../domain/language/load.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import type { MockProgram } from '../../sandbox/mock/programs.ts';
import { useTestRuns } from '../rig/servers/test-runs.ts';

let gateIsOpen = false;
let hasReached = false;

const programs: Record<string, MockProgram> = {
  /** Prints its input, a number, plus one; `gate N` waits where that is N. */
  next: async ({ args, files, killed, write }) => {
    const file = files.find('/workspace/input.json');
    const number = (file?.kind === 'file' ? Number(Buffer.from(file.body).toString()) : 0) + 1;
    if (args[0] === 'gate' && number === Number(args[1])) {
      hasReached = true;
      while (!gateIsOpen) await sleep(20, undefined, { signal: killed });
    }
    await write('stdout', String(number));
    return 0;
  },
  same: async ({ files, write }) => {
    const file = files.find('/workspace/input.json');
    await write('stdout', file?.kind === 'file' ? Buffer.from(file.body).toString() : 'nothing');
    return 0;
  },
};

const runs = useTestRuns(createMockBackend({ programs }), {
  recorded: ['loop', 'loop-limit', 'loop-pass', 'loop-asks', 'loop-cancelled', 'loop-worker-change', 'loop-nested'],
});
const { stopWorker, outcomeOf, textOf, viewOf } = runs;

async function start(runId: string, boxes: readonly string[], stages: readonly string[], part = ''): Promise<void> {
  const list = (lines: readonly string[]): string => lines.map((line) => `    - { ${line} }\n`).join('');
  const { plan, diagnostics } = compileText(
    `kind: pipeline\nname: ${runId}\nsandbox: { mode: mock, isolation: none }\npipeline:\n  boxes:\n${list(boxes)}  stages:\n${list(stages)}`,
    'x',
    { baseDir: '/x', checkExpression: checkExpressions, readSpec: () => ({ text: part }) },
  );
  expect(diagnostics).toEqual([]);
  await startRun(runs.client, { runId, request: { plan: toWire(plan!) }, summary: runId });
}

async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await holds()); tries += 1) {
    if (tries > 600) throw new Error(`no sign of ${what}`);
    await sleep(50);
  }
}

const BOXES = [
  'name: first, run: { program: next }',
  'name: write, run: { program: next }',
  'name: judge, run: { program: same }',
  'name: last, run: { program: same }',
];
const loop = (more: string): readonly string[] => [
  'type: box, name: first',
  `type: loop, name: refine, boxes: [write, judge], ${more}`,
  'type: box, name: last',
];

test('visits build on each other until the condition holds, and the next stage gets the last result', async () => {
  await start('loop', BOXES, loop('until: stages.judge.json >= 4, max_visits: 5'));
  const outcome = await outcomeOf('loop');
  expect(outcome.state).toBe('succeeded');
  expect(await textOf(outcome)).toBe('4');
  const { stages } = await viewOf('loop');
  expect(stages.map(({ id, state, attempt, visit }) => [id, state, attempt, visit ?? null])).toEqual([
    ['first', 'succeeded', 1, null],
    ['write', 'succeeded', 3, null],
    ['judge', 'succeeded', 3, null],
    ['refine', 'succeeded', 1, 3],
    ['last', 'succeeded', 1, null],
  ]);
});

test('at its limit a loop fails with loop/limit, and no stage follows', async () => {
  await start('loop-limit', BOXES, loop('until: stages.judge.json >= 4, max_visits: 2'));
  expect(await outcomeOf('loop-limit')).toMatchObject({
    state: 'failed',
    failedStage: 'refine',
    failure: { code: 'loop/limit', message: 'the condition (`until`) of loop refine did not hold after 2 visits' },
  });
  expect((await viewOf('loop-limit')).stages.at(-1)).toMatchObject({ id: 'last', state: 'skipped' });
});

test('with `on_limit: pass` the run continues with the last visit of the loop', async () => {
  await start('loop-pass', BOXES, loop('until: "false", max_visits: 2, on_limit: pass'));
  expect(await textOf(await outcomeOf('loop-pass'))).toBe('3');
});

test('people may be asked in each visit, and their answer ends the loop', async () => {
  const boxes = [
    'name: write, run: { program: next }',
    // In its second visit it gets the answer, which is not a number.
    `name: review, approval: { message: 'Is \${{ stages.write.output == "1" ? 1 : 2 }} good?', fields: [{ name: good, type: boolean }] }`,
  ];
  const messages: unknown[] = [];
  await start('loop-asks', boxes, [
    'type: loop, name: refine, boxes: [write, review], until: stages.review.json.fields.good, max_visits: 3',
  ]);
  const { client } = runs.stack.runs;
  for (const good of [false, true]) {
    // The previous question may be shown for a moment after its answer was accepted.
    const visit = good ? 2 : 1;
    await until(`the question of visit ${visit}`, async () => {
      const { state, attempt, question } = (await viewOf('loop-asks')).stages[1] ?? {};
      if (state !== 'asking' || attempt !== visit) return false;
      messages.push(question?.message);
      return true;
    });
    await answerStage(client, 'loop-asks', { stage: 'review', decision: 'approve', fields: { good } });
  }
  const outcome = await outcomeOf('loop-asks');
  expect(outcome.state).toBe('succeeded');
  expect(messages).toEqual(['Is 1 good?', 'Is 2 good?']);
  expect((await viewOf('loop-asks')).stages.map(({ id, attempt }) => [id, attempt])).toEqual([
    ['write', 2],
    ['review', 2],
    ['refine', 1],
  ]);
});

test('a cancel in a later visit ends the loop', async () => {
  [gateIsOpen, hasReached] = [false, false];
  const boxes = ['name: write, run: { program: next, args: [gate, "2"] }'];
  await start('loop-cancelled', boxes, ['type: loop, name: refine, boxes: [write], until: "false", max_visits: 3']);
  await until('the second visit', () => hasReached);
  await cancelRun(runs.client, 'loop-cancelled');
  expect((await outcomeOf('loop-cancelled')).state).toBe('cancelled');
});

test('after a change of workers in the middle of a visit, the visit continues', async () => {
  [gateIsOpen, hasReached] = [false, false];
  const boxes = ['name: write, run: { program: next, args: [gate, "2"] }'];
  await start('loop-worker-change', boxes, [
    'type: loop, name: refine, boxes: [write], until: stages.write.json >= 3, max_visits: 9',
  ]);
  await until('the second visit', () => hasReached);
  await stopWorker();
  gateIsOpen = true;
  await runs.startWorker();
  const outcome = await outcomeOf('loop-worker-change');
  expect(outcome.state).toBe('succeeded');
  expect(await textOf(outcome)).toBe('3');
});

test('a loop in a part in a loop begins again in each visit of the outer loop', async () => {
  const part = `kind: pipeline
name: inner
sandbox: { mode: mock, isolation: none }
pipeline:
  boxes:
    - { name: add, run: { program: next } }
  stages:
    - { type: loop, name: twice, boxes: [add], until: "false", max_visits: 2, on_limit: pass }
`;
  const stages = ['type: loop, name: outer, boxes: [use], until: stages.use.json >= 5, max_visits: 4'];
  await start('loop-nested', ['name: use, uses: ./inner.yaml'], stages, part);
  const outcome = await outcomeOf('loop-nested');
  expect(outcome.state, JSON.stringify(outcome)).toBe('succeeded');
  expect(await textOf(outcome)).toBe('6');
  expect((await viewOf('loop-nested')).stages.map(({ id, attempt }) => [id, attempt])).toEqual([
    ['use.add', 6],
    ['use.twice', 3],
    ['use', 3],
    ['outer', 1],
  ]);
});
