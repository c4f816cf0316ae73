import { expect, test } from 'vitest';
import { randomOf } from '../../../test/machine/random.ts';
import { checkCondition, checkExpression, checkText } from './check.ts';
import { type ConditionValues, evaluateCondition, evaluateTexts } from './evaluate.ts';
import { isProblem, parseExpression } from './language.ts';
import { EXPRESSION_LIMITS } from './limits.ts';
import type { TypedValues } from './value-types.ts';

function evaluate(source: string, values: Readonly<Record<string, unknown>> = {}): unknown {
  const parsed = parseExpression(source);
  if (isProblem(parsed)) throw new Error(parsed.message);
  return parsed.run(values);
}

const NOTHING: ConditionValues = { stages: {}, params: {} };
const ofOutput = (output: string): ConditionValues => ({ stages: { a: { output, state: 'succeeded' } }, params: {} });

test('the check returns the stages and parameters that an expression reads', () => {
  const source = 'stages.build.json.ok && has(stages["unit-tests"].output) && params.env in ["a"] && params.env != ""';
  expect(checkExpression(source)).toEqual({
    type: 'bool',
    stages: [
      { stage: 'build', field: 'json', start: 0, nameEnd: 12, end: 17 },
      { stage: 'unit-tests', field: 'output', start: 28, nameEnd: 48, end: 55 },
    ],
    params: [
      { name: 'env', start: 60, end: 70 },
      { name: 'env', start: 83, end: 93 },
    ],
  });
});

test.each<[string, string, string]>([
  ['1 == 1 && stages.build.jsno', 'a stage has no "jsno"; it has output, json, state, exit_code', 'stages.build.jsno'],
  ['has(stages.build)', 'the stage "build" needs a field: `.output`, `.json`, `.state`, `.exit_code`', 'stages.build'],
  ['stages[params.env].json', 'write `stages.NAME`: the expression must contain the name itself', 'stages'],
  ['size(stages) > 1', 'write `stages.NAME`: the expression must contain the name itself', 'stages'],
  ['size(params) > 1', 'write `params.NAME`: the expression must contain the name itself', 'params'],
  ['params.a && foo', 'unknown variable: foo', 'foo'],
  ['1 + "a" == "1a"', 'no such overload: int + string', '1 + "a"'],
  ['b"a" != params.a', 'bytes are not supported: compare strings', 'b"a"'],
  ['bytes(params.a) == params.b', 'bytes are not supported: compare strings', 'bytes(params.a)'],
  ['"yes"', 'its value has the type string, but a condition must be a bool', '"yes"'],
  ['size(params.a)', 'its value has the type int, but a condition must be a bool', 'size(params.a)'],
])('%s: %s', (source, message, at) => {
  const start = source.indexOf(at);
  expect(checkCondition(source)).toMatchObject({ problems: [{ message, start, end: start + at.length }] });
});

test.each([
  [
    'success() && params.n > 1',
    'there is no function `success()`',
    'remove it: a stage starts after the stages that it waits for have succeeded',
  ],
  [
    'contains(params.t, "x")',
    'there is no function `contains(dyn, string)`',
    'call it as a method: `TEXT.contains("part")`',
  ],
  ['steps.build.outputs.ok', 'unknown variable: steps', 'write `stages.NAME`'],
  [
    'foo > 1',
    'unknown variable: foo',
    'read `params.NAME`, or `output`, `json`, `state` or `exit_code` of `stages.NAME`',
  ],
  ['1 + "a" == "1a"', 'no such overload: int + string', 'convert a value: `int(…)`, `double(…)`, `string(…)`'],
  [
    'stages.my-step.output == "a"',
    'the stage "my" needs a field: `.output`, `.json`, `.state`, `.exit_code`',
    'a name with `-` needs brackets: write `stages["my-step"]`',
  ],
  ['params.dry-run && params.b', 'unknown variable: run', 'a name with `-` needs brackets: write `params["dry-run"]`'],
  [
    'stages["a-b"].json.exit-code == 0',
    'unknown variable: code',
    'a name with `-` needs brackets: write `stages["a-b"].json["exit-code"]`',
  ],
  [
    'stages.2nd.output == "a"',
    'expected IDENTIFIER, got NUMBER',
    'a name that begins with a digit needs brackets: write `stages["2nd"]`',
  ],
  [
    'stages.fix.lint-all.state == "failed"',
    'a stage has no "lint"; it has output, json, state, exit_code',
    'if "fix.lint-all" is a stage, write `stages["fix.lint-all"].state`',
  ],
  ['params.n == 1 and params.b', "unexpected character: 'd'", 'write `&&` for and, `||` for or, `!` for not'],
  ['params.n === 1', 'unexpected character: =', 'write `==` or `!=` to compare'],
])('%s: %s, and what to write', (source, message, remedy) => {
  expect(checkCondition(source)).toMatchObject({ problems: [{ message, remedy }] });
});

const VALUES: TypedValues = new Map<string, { readonly value: unknown; readonly choices?: readonly string[] } | null>([
  ['n', { value: 3 }],
  ['m', { value: 1.5 }],
  ['t', { value: '100' }],
  ['b', { value: true }],
  ['list', { value: [1, 'a'] }],
  ['c', { value: 'prod', choices: ['dev', 'prod'] }],
  ['missing', null],
]);

test.each<[string, string, string]>([
  ['params.n == "3"', 'no such overload: int == string', 'params.n == "3"'],
  ['params.b && params.m in ["a"]', 'no such overload: int in list<string>', 'params.m in ["a"]'],
  ['params.t > 3', 'no such overload: string > int', 'params.t > 3'],
  ['params.b == "true"', 'no such overload: bool == string', 'params.b == "true"'],
  ['params["list"] == "a"', 'no such overload: list<dyn> == string', 'params["list"] == "a"'],
  ['stages["unit-tests"].exit_code == "0"', 'no such overload: int == string', 'stages["unit-tests"].exit_code == "0"'],
  ['stages.a.output == 3', 'no such overload: string == int', 'stages.a.output == 3'],
  ['params.t', 'its value has the type string, but a condition must be a bool', 'params.t'],
  ['params.n', 'its value has the type int, but a condition must be a bool', 'params.n'],
  ['stages.a.state == "success"', 'a stage\'s state is never "success"', '"success"'],
  [
    'params.b && "skiped" != stages["a-b"].state',
    'a stage\'s state is never "skiped"; did you mean "skipped"?',
    '"skiped"',
  ],
  ['"prdo" == params.c', 'the parameter "c" is never "prdo"; did you mean "prod"?', '"prdo"'],
  ['params.b && !(params["c"] in ["dev", "test"])', 'the parameter "c" is never "test"', '"test"'],
])('a type mistake is reported: %s', (source, message, at) => {
  const start = source.indexOf(at);
  expect(checkCondition(source, VALUES)).toMatchObject({ problems: [{ message, start, end: start + at.length }] });
  // An admitted run continues even if a later build would reject its expressions.
  expect(checkCondition(source)).not.toHaveProperty('problems');
});

test.each([
  'params.n == 3 && params.n > 2.5 && params.n + 1 > 2',
  'params.n / 2.0 > 1.0',
  'params.n % 2 == 0 && params.m * 2.0 == 3.0',
  'params.n == stages.a.json.n && params.t == stages.a.json.t && params.b',
  'int(params.t) < stages.a.json.count || double(params.t) > params.m',
  'params.list.exists(each, each == "a") && size(params.list) > params.n',
  'has(stages.a.json.x) && stages.a.json.x == "1" || has(stages["a-b"].output)',
  'stages.a.?output.orValue("") == "x" || stages.a.?exit_code.orValue(0) == 1',
  'params.missing == 3 || params.missing == "3"',
  'stages.a.state == "failed" || "passed" == stages["a-b"].state || stages.a.state in ["skipped", "cancelled"]',
  'params.undeclared == 3',
  'params.t.matches("^1") ? params.b : params.n > 1',
])('the types allow %s', (source) => {
  expect(checkCondition(source, VALUES)).not.toHaveProperty('problems');
});

test('a text accepts any type that has a text, and its types are checked too', () => {
  expect(checkText('params.n + 1', VALUES)).not.toHaveProperty('problems');
  expect(checkText('params.t + 1', VALUES)).toMatchObject({
    problems: [{ message: 'no such overload: string + int' }],
  });
});

test.each([
  ['1 +', 'unexpected token: EOF'],
  ['('.repeat(EXPRESSION_LIMITS.depth + 1) + '1' + ')'.repeat(EXPRESSION_LIMITS.depth + 1), 'exceeded maxDepth (50)'],
  [`[${'1,'.repeat(EXPRESSION_LIMITS.nodes)}1]`, 'exceeded maxAstNodes (1000)'],
  [`"${'x'.repeat(EXPRESSION_LIMITS.characters)}"`, 'the expression has 4098 characters; at most 4096 are allowed'],
])('limit %#', (source, message) => {
  expect(checkExpression(source)).toMatchObject({ problems: [{ message }] });
});

test('no text makes the parser, the checker or the evaluation throw', () => {
  const words = ['stages', '.', 'a', 'json', 'params', '[', ']', '(', ')', '"', "'", 'has', 'matches', '1', '9e9', '==']
    .concat(['&&', '||', '!', '?', ':', ',', '{', '}', 'in', 'b"', '\\', '\u0000', '💥', '-', '..', '[?', '.?', '"a"'])
    .concat([
      'all',
      'x',
      'int',
      'timestamp',
      'map',
      'optional',
      'orValue',
      'size',
      'null',
      'true',
      'type',
      '0x',
      'u',
      'r"',
    ]);
  let read = 0;
  for (let seed = 1; seed <= 5_000; seed += 1) {
    const random = randomOf(seed);
    const source = Array.from({ length: 1 + random(14) }, () => words[random(words.length)]!).join(
      random(2) ? '' : ' ',
    );
    const texts = evaluateTexts([source], ofOutput('{"a":[1,"b"]}'));
    expect('texts' in texts || texts.problem.length > 0, source).toBe(true);
    const answer = evaluateCondition(source, ofOutput('{"a":[1,"b"]}'));
    expect('holds' in answer || answer.problem.length > 0, source).toBe(true);
    if ('holds' in answer) read += 1;
  }
  expect(read).toBeGreaterThan(5);
});

test('a pattern that takes exponential time in other engines ends fast', () => {
  const values = { params: { env: `${'a'.repeat(64)}b` } };
  expect(evaluate('params.env.matches("^(a+)+$")', values)).toBe(false);
  expect(evaluate('matches(params.env, "^(a+)+b$")', values)).toBe(true);
});

test.each([
  ['"a".matches("(((")', /^a regular expression is wrong: .* \(at character 1\)$/],
  ['stages.a.output.missing == 1', /no such/],
  ['stages.a.json.b == 1', 'no such key: b; ask for it with `has(…)` first, or read it with `.?` (at character 15)'],
  [
    'stages.b.output == ""',
    'no such key: output; ask for it with `has(…)` first, or read it with `.?` (at character 10)',
  ],
  ['stages.a.json.c', 'its value is a number; a condition must be true or false'],
  ['1 / 0 == 1', 'division by zero (at character 1)'],
])('%s fails as %s', (source, problem) => {
  const values = { stages: { a: { output: '{"c":1}' }, b: { state: 'passed' } }, params: {} };
  const answer = evaluateCondition(source, values);
  expect('problem' in answer ? answer.problem : 'none').toMatch(problem);
});

test.each([
  ['stages.a.json.n + 1 == 9007199254740993', '{"n":9007199254740992}'],
  ['stages.a.json.n == 1 && stages.a.json.n < 1.5', '{"n":1}'],
  ['stages.a.json.n == 1.5', '{"n":1.5}'],
  ['stages.a.json.n > 1e20', '{"n":123456789012345678901234567890}'],
  ['stages.a.json.all(item, item > 0) && size(stages.a.json) == 2', '[1,2]'],
  ['!has(stages.a.json.constructor) && !has(stages.a.json.size) && has(stages.a.json.__proto__)', '{"__proto__":1}'],
  ['stages.a.json.list[0].name == "x"', '{"list":[{"name":"x"}]}'],
  ['stages.a.json.?b.orValue("none") == "none"', '{}'],
  ['stages.a.output.startsWith("{") && stages.a.state == "succeeded"', '{}'],
  ['stages.a.json == null', 'null'],
])('%s holds for %s', (source, output) => {
  expect(evaluateCondition(source, ofOutput(output))).toEqual({ holds: true });
});

test('a value that a passed stage does not have is absent, whatever its name', () => {
  const values = { stages: { 'a-b': { state: 'passed' } }, params: { env: 'prod' } };
  const source = '!has(stages["a-b"].output) && !has(stages["a-b"].exit_code) && stages["a-b"].state == "passed"';
  expect(evaluateCondition(`${source} && params.env == "prod"`, values)).toEqual({ holds: true });
  expect(evaluateCondition('has(params.constructor)', NOTHING)).toEqual({ holds: false });
});

test.each([
  ['stages.a.json.u64 == 18446744073709551615u', '{"u64":18446744073709551615}'],
  ['stages.a.json.u64 != 18446744073709551614u && stages.a.json.u64 > 1', '{"u64":18446744073709551615}'],
  ['stages.a.json.f == 1 && stages.a.json.f < 1.5 && stages.a.json.f / 2.0 == 0.5', '{"f":1.0}'],
  ['stages.a.json.z == 0', '{"z":-0}'],
  ['{"__proto__": 1, "constructor": 2}.constructor == 2', '{}'],
])('a number is compared with the digits that the command printed: %s', (source, output) => {
  expect(evaluateCondition(source, ofOutput(output))).toEqual({ holds: true });
});

test.each([
  [
    'stages.a.json.n > 1',
    '{"n":1e999}',
    'the output of stage a has the number 1e999, which is larger than the largest number',
  ],
  ['stages.a.json.n > 1', `{"n":${'9'.repeat(1_001)}}`, 'has 1001 characters; an expression reads at most 1000'],
])('a number that an expression cannot compute with is an error %#', (source, output, problem) => {
  expect(evaluateCondition(source, ofOutput(output))).toEqual({ problem: expect.stringContaining(problem) });
});

test.each([
  ['stages.in.output', 'stages["in"]'],
  ['stages["a"].json.true.x', 'stages["a"].json["true"]'],
])('for a name that is a word of the language, the remedy shows the form with brackets: %s', (source, form) => {
  const checked = checkText(source);
  expect('problems' in checked ? checked.problems[0]!.remedy : '').toContain(form);
});
