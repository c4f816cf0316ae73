/** The thread that conditions are evaluated in, from `dist/`: what authors and guests may do to it, and that it is ended. */
import { afterEach, expect, test } from 'vitest';
import type { ConditionValues } from '../domain/language/expression/evaluate.ts';
import { EXPRESSION_LIMITS } from '../domain/language/expression/limits.ts';
import { type ConditionThreads, createConditionThreads } from './threads.ts';

let threads: ConditionThreads;
afterEach(() => threads.close());

const NOTHING: ConditionValues = { stages: {}, params: {} };
const ofOutput = (output: string): ConditionValues => ({ stages: { a: { output, state: 'succeeded' } }, params: {} });

test('conditions are decided one after the other, by what they read', async () => {
  threads = createConditionThreads();
  const answers = await Promise.all([
    threads.evaluate('stages.a.json.n > 9007199254740992', ofOutput('{"n":9007199254740993}')),
    threads.evaluate('stages.a.json.n > 1', ofOutput('nothing')),
    threads.evaluate('params.env == "prod"', { ...NOTHING, params: { env: 'prod' } }),
    threads.evaluate('params.env == "prod"', { ...NOTHING, params: { env: 'test' } }),
  ]);
  expect(answers).toEqual([
    { holds: true },
    {
      problem:
        'the output of stage a is not JSON: there is something else at line 1, column 1; it begins with "nothing"',
    },
    { holds: true },
    { holds: false },
  ]);
});

const LIST = JSON.stringify(Array.from({ length: 400 }, (_, index) => index));
const LOOPS = 'stages.a.json.all(x, stages.a.json.all(y, stages.a.json.all(z, x + y + z >= 0)))';

test.each<[string, string, string, RegExp]>([
  ['a loop in a loop in a loop', LOOPS, LIST, /^it takes more than 100 ms$/],
  ['lists of lists of lists', grown(5), LIST, /^it takes more than (100 ms|64 MiB of memory)$/],
  ['a text that doubles', doubledText(30), 'x'.repeat(100_000), /^(it takes more than|its value is too large)/],
  [
    'brackets that never end',
    'stages.a.json == 1',
    '['.repeat(EXPRESSION_LIMITS.inputBytes),
    /nested more than 200 deep$/,
  ],
])('%s ends, and the next is decided', async (_what, source, output, problem) => {
  threads = createConditionThreads();
  expect(await threads.evaluate(source, ofOutput(output))).toEqual({ problem: expect.stringMatching(problem) });
  expect(await threads.evaluate('1 == 1', NOTHING)).toEqual({ holds: true });
});

/** Each round makes a list of 400 of each item. */
function grown(rounds: number): string {
  const inner = Array.from({ length: rounds }, (_, round) => `stages.a.json.map(x${round}, `).join('');
  return `size(${inner}[1, 2, 3, 4, 5, 6, 7, 8]${')'.repeat(rounds)}) > 0`;
}

function doubledText(rounds: number): string {
  const outer = '['.repeat(rounds);
  const maps = Array.from({ length: rounds }, (_, round) => `].map(t${round}, t${round} + t${round})[0]`).join('');
  return `${outer}stages.a.output${maps}.size() > 0`;
}

test('a large output with a pattern that others never end with is decided in time', async () => {
  threads = createConditionThreads();
  const output = `${'a'.repeat(20_000)}b`;
  expect(await threads.evaluate('stages.a.output.matches("^(a+)+$")', ofOutput(output))).toEqual({ holds: false });
});

test('texts are made by the same thread, with its limits', async () => {
  threads = createConditionThreads();
  expect(await threads.evaluateTexts(['stages.a.json.n', '"x"'], ofOutput('{"n":9007199254740993}'))).toEqual({
    texts: ['9007199254740993', 'x'],
  });
  expect(await threads.evaluateTexts(['"x"', 'stages.a.json.m'], ofOutput('{}'))).toMatchObject({ source: 1 });
  expect(await threads.evaluateTexts([LOOPS.replace('all(x', 'map(x')], ofOutput(LIST))).toEqual({
    problem: 'it takes more than 100 ms',
    source: 0,
  });
});

test('an idle thread ends, and the next question starts a new one', async () => {
  threads = createConditionThreads({ idleMs: 1 });
  for (let round = 0; round < 3; round += 1) {
    expect(await threads.evaluate('1 == 1', NOTHING)).toEqual({ holds: true });
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
});

test("a problem contains only part of the guest's output", async () => {
  threads = createConditionThreads();
  const answer = await threads.evaluate(
    'stages.a.output.matches(stages.a.output)',
    ofOutput(`(${'x'.repeat(100_000)}`),
  );
  expect('problem' in answer && answer.problem.length).toBeLessThanOrEqual(1_024);
});

test('outputs are judged in a thread of their own, and a bad one delays no other', async () => {
  threads = createConditionThreads();
  const schema = { type: 'object', properties: { ok: { type: 'boolean' } } };
  expect(await threads.checkOutput(schema, '{"ok":true}')).toEqual({ fits: true });
  expect(await threads.checkOutput(schema, '{"ok":1}')).toEqual({ problem: '/ok must be boolean' });
  expect(await threads.checkOutput({ type: 'text' }, null)).toEqual({
    problem: expect.stringContaining('schema is invalid'),
  });
});

const HOSTILE_PATTERN = { type: 'string', pattern: '^(a+)+$' };
const ALL_EQUAL = { uniqueItems: true };

test.each<[string, object, string]>([
  ['a pattern that never ends', HOSTILE_PATTERN, JSON.stringify(`${'a'.repeat(60)}b`)],
  ['items that are all compared', ALL_EQUAL, JSON.stringify(Array.from({ length: 40_000 }, (_, index) => [index]))],
])('%s ends, and the next is judged', async (_what, schema, text) => {
  threads = createConditionThreads();
  expect(await threads.checkOutput(schema as never, text)).toEqual({
    problem: expect.stringMatching(/^it takes more than (2000 ms|64 MiB of memory)$/),
  });
  expect(await threads.checkOutput({ type: 'number' }, '1')).toEqual({ fits: true });
});
