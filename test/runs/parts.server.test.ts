/** Specs that use others, through a real Temporal server and the real activities; only the VM is a mock. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { answerStage } from '../../client/runs/answers.ts';
import { cancelRun, startRun } from '../../client/runs/runs.ts';
import type { RunRequest } from '../../activities/contract.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { checkExpressions } from '../../domain/language/expression/check.ts';
import { compileText } from '../../domain/language/load.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import type { MockProgram } from '../../sandbox/mock/programs.ts';
import { useTestRuns } from '../rig/servers/test-runs.ts';

/** How often each command was started, by its words. */
const starts = new Map<string, number>();
let isBroken = true;
let gateIsOpen = false;

const programs: Record<string, MockProgram> = {
  /** Prints its words and what it finds as its input; `fail` in them fails while the world is broken, `gate` waits. */
  say: async ({ args, files, killed, write }) => {
    const words = args.join(' ');
    starts.set(words, (starts.get(words) ?? 0) + 1);
    if (words.includes('gate')) while (!gateIsOpen) await sleep(20, undefined, { signal: killed });
    if (words.includes('fail') && isBroken) return 3;
    const file = files.find('/workspace/input.json');
    const input = file?.kind === 'file' ? ` <${Buffer.from(file.body).toString()}` : '';
    await write('stdout', `${words}${input}`);
    return 0;
  },
};

const runs = useTestRuns(createMockBackend({ programs }), {
  recorded: [
    'parts',
    'parts-failed',
    'parts-retried',
    'parts-passed',
    'parts-tolerated',
    'parts-tolerated-items',
    'parts-cancelled',
    'parts-worker-change',
  ],
});
const { stopWorker, outcomeOf, textOf, viewOf } = runs;

const MOCK = 'sandbox: { mode: mock, isolation: none }';

/** `kind: pipeline`; parts by the name of their file. */
function requestOf(boxes: readonly string[], parts: Readonly<Record<string, string>>): RunRequest {
  const list = boxes.map((box) => `    - { ${box} }\n`).join('');
  const { plan, diagnostics } = compileText(`kind: pipeline\nname: x\n${MOCK}\npipeline:\n  boxes:\n${list}`, 'x', {
    baseDir: '/x',
    checkExpression: checkExpressions,
    readSpec: (path) => ({ text: parts[path.replace('/x/', '')]! }),
  });
  expect(diagnostics).toEqual([]);
  return { plan: toWire(plan!) };
}

async function start(runId: string, request: RunRequest): Promise<void> {
  await startRun(runs.client, { runId, request, summary: `test ${runId}` });
}

async function statesOf(runId: string): Promise<readonly string[]> {
  return (await viewOf(runId)).stages.map(({ id, state }) => `${id} ${state}`);
}

const say = (name: string, words = name): string => `name: ${name}, run: { program: say, args: [${words}] }`;
const pipeline = (boxes: readonly string[], more = ''): string =>
  `kind: pipeline\nname: p\n${MOCK}\npipeline:\n  boxes:\n${boxes.map((box) => `    - { ${box} }\n`).join('')}${more}`;

test('a part takes what is carried, asks, repeats and hands on, as stages of one run', async () => {
  const inner = pipeline([
    say('left'),
    'name: each, for_each: [a, b], run: { program: say, args: [item] }',
    'name: ask, approval: { message: Go on? }',
    say('right'),
  ]);
  await start(
    'parts',
    requestOf([say('first'), 'name: mid, uses: ./outer.yaml', say('last')], {
      'outer.yaml': pipeline(
        ['name: in, uses: ./inner.yaml', say('beside')],
        '  stages: [{ type: fan_out, boxes: [in, beside] }]\n',
      ),
      'inner.yaml': inner,
    }),
  );
  while (!(await statesOf('parts')).includes('mid.in.ask asking')) await sleep(50);
  await answerStage(runs.client, 'parts', { stage: 'mid.in.ask', decision: 'approve', by: 'ada' });
  const outcome = await outcomeOf('parts');
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
  expect(await statesOf('parts')).toEqual(
    ['first', 'mid.in.left', 'mid.in.each', 'mid.in.ask', 'mid.in.right', 'mid.in', 'mid.beside', 'mid', 'last'].map(
      (id) => `${id} succeeded`,
    ),
  );
  const text = await textOf(outcome);
  // The names that the stages have in the part.
  expect(text).toMatch(/^last <\[\{"name":"in","output":"right </);
  expect(text).toContain('{"name":"beside","output":"beside <first"}');
  expect((await viewOf('parts')).stages.find(({ id }) => id === 'mid')).toMatchObject({ isolation: null });
});

test('outputs of its stages reach arguments within the part, and its own output reaches arguments next to it', async () => {
  const showing = (name: string, text: string): string => `name: ${name}, run: { program: say, args: ['${text}'] }`;
  await start(
    'parts-texts',
    requestOf(['name: p, uses: ./p.yaml', showing('end', 'end(${{ stages.p.output }})')], {
      'p.yaml': pipeline([say('one'), 'name: q, uses: ./q.yaml', showing('two', 'two(${{ stages.q.output }})')]),
      'q.yaml': pipeline([say('one', 'inner'), showing('two', 'in-q(${{ stages.one.output }})')]),
    }),
  );
  const outcome = await outcomeOf('parts-texts');
  expect(outcome).toMatchObject({ state: 'succeeded', failure: null });
  const ofQ = 'in-q(inner <one) <inner <one';
  const ofP = `two(${ofQ}) <${ofQ}`;
  expect(await textOf(outcome)).toBe(`end(${ofP}) <${ofP}`);
});

test('a stage of a part that fails is the failure of the run, and a retry starts there', async () => {
  const request = requestOf([say('start'), 'name: p, uses: ./p.yaml', say('end')], {
    'p.yaml': pipeline([say('one', 'retry-one'), say('two', 'fail-two')]),
  });
  await start('parts-failed', request);
  expect(await outcomeOf('parts-failed')).toMatchObject({ state: 'failed', failedStage: 'p.two' });
  expect(await statesOf('parts-failed')).toEqual([
    'start succeeded',
    'p.one succeeded',
    'p.two failed',
    'p skipped',
    'end skipped',
  ]);
  isBroken = false;
  await start('parts-retried', { ...request, origin: { runId: 'parts-failed', kind: 'retry', from: null } });
  const outcome = await outcomeOf('parts-retried');
  expect(await textOf(outcome)).toBe('end <fail-two <retry-one <start');
  expect([starts.get('retry-one'), starts.get('fail-two')]).toEqual([1, 2]);
});

test('a part that is passed is passed with all of its stages, and what is carried goes through', async () => {
  await start(
    'parts-passed',
    requestOf([say('start'), 'name: p, uses: ./p.yaml, when: stages.start.output == "no"', say('end')], {
      'p.yaml': pipeline([say('one', 'never'), say('two', 'never')]),
    }),
  );
  const outcome = await outcomeOf('parts-passed');
  expect(await statesOf('parts-passed')).toEqual([
    'start succeeded',
    'p.one passed',
    'p.two passed',
    'p passed',
    'end succeeded',
  ]);
  expect(await textOf(outcome)).toBe('end <start');
  expect(starts.has('never')).toBe(false);
});

test("a part whose failure is tolerated does not fail the run, and the next stage gets the part's input", async () => {
  isBroken = true;
  await start(
    'parts-tolerated',
    requestOf([say('start'), 'name: p, uses: ./p.yaml, continue_on_error: true', say('end')], {
      'p.yaml': pipeline([say('one', 'fail-tolerated'), say('two', 'never')]),
    }),
  );
  const outcome = await outcomeOf('parts-tolerated');
  expect(outcome).toMatchObject({ state: 'succeeded', failedStage: null, tolerated: ['p'] });
  expect(await textOf(outcome)).toBe('end <start');
  expect(await statesOf('parts-tolerated')).toEqual([
    'start succeeded',
    'p.one failed',
    'p.two skipped',
    'p failed',
    'end succeeded',
  ]);
  isBroken = false;
  const origin = { runId: 'parts-tolerated', kind: 'retry', from: null } as const;
  await start('parts-tolerated-again', {
    ...requestOf([say('start'), 'name: p, uses: ./p.yaml, continue_on_error: true', say('end')], {
      'p.yaml': pipeline([say('one', 'fail-tolerated'), say('two', 'two')]),
    }),
    origin: { ...origin, kind: 'fork' },
  });
  expect(await textOf(await outcomeOf('parts-tolerated-again'))).toBe('end <two <fail-tolerated <start');
});

test('a tolerated part that runs for each item does not fail the run either, once too many items have failed', async () => {
  isBroken = true;
  await start(
    'parts-tolerated-items',
    requestOf(
      [
        say('start'),
        'name: p, uses: ./p.yaml, for_each: [a, b], continue_on_error: true',
        'name: end, run: { program: say, args: [end-of-items] }',
      ],
      { 'p.yaml': pipeline([say('one', 'fail-each')]) },
    ),
  );
  const outcome = await outcomeOf('parts-tolerated-items');
  expect(outcome).toMatchObject({ state: 'succeeded', tolerated: ['p'] });
  expect(await statesOf('parts-tolerated-items')).toEqual(['start succeeded', 'p failed', 'end succeeded']);
  isBroken = false;
});

test('a cancelled run ends what its part runs, and begins nothing else of it', async () => {
  gateIsOpen = false;
  await start(
    'parts-cancelled',
    requestOf(['name: p, uses: ./p.yaml'], {
      'p.yaml': pipeline([say('one', 'gate-cancelled'), say('two', 'never')]),
    }),
  );
  while (!starts.has('gate-cancelled')) await sleep(20);
  await cancelRun(runs.client, 'parts-cancelled');
  expect((await outcomeOf('parts-cancelled')).state).toBe('cancelled');
  expect(await statesOf('parts-cancelled')).toEqual(['p.one cancelled', 'p.two skipped', 'p skipped']);
});

test('after a change of workers, no work of a part is repeated', async () => {
  gateIsOpen = false;
  await start(
    'parts-worker-change',
    requestOf(['name: p, uses: ./p.yaml', say('end', 'end-of-change')], {
      'p.yaml': pipeline([say('one', 'gate-change'), say('two', 'two-of-change')]),
    }),
  );
  while (!starts.has('gate-change')) await sleep(20);
  await stopWorker();
  gateIsOpen = true;
  await runs.startWorker();
  expect(await textOf(await outcomeOf('parts-worker-change'))).toBe('end-of-change <two-of-change <gate-change');
  expect(['gate-change', 'two-of-change', 'end-of-change'].map((words) => starts.get(words))).toEqual([1, 1, 1]);
});

test('a spec that comes as text uses no file of the worker', async () => {
  await start('parts-as-text', { spec: pipeline(['name: p, uses: ./p.yaml']) });
  expect((await outcomeOf('parts-as-text')).failure).toMatchObject({
    code: 'admit/invalid',
    message: expect.stringContaining('a spec that is sent as text'),
  });
});
