import { expect, test } from 'vitest';
import { compileText } from '../load.ts';

const messages = (params: string, given: Record<string, string> = {}): readonly string[] =>
  compileText(
    `kind: workflow\nname: x\nparams: { p: ${params} }\nworkflow: { steps: [{ name: a, run: { program: a } }] }\n`,
    'x.yaml',
    { baseDir: '/', params: given },
  ).diagnostics.map(({ message }) => message);

test.each([
  ['{ max: .inf }', '`max` of parameter "p" must be a number, got the number .inf'],
  ['[.nan]', 'parameter "p" must be a text, number, boolean or list, got a list'],
  ['{ type: number, default: .inf }', 'the default of parameter "p" is ".inf"; a number is needed'],
])('a number that JSON cannot represent is refused: %s', (params, message) => {
  expect(messages(params)).toContain(message);
});

test.each([
  [10_000, []],
  [
    10_001,
    [expect.stringMatching(/^the value of parameter "p" is "\[0,0.*; it has 10001 items; at most 10000 are allowed$/)],
  ],
])('a list of %i items', (count, expected) => {
  expect(messages('{ type: list }', { p: JSON.stringify(Array(count).fill(0)) })).toEqual(expected);
});

test('a list that is nested as deep as a text can be is refused, and does not overflow the stack', () => {
  expect(messages('{ type: list }', { p: `${'['.repeat(200_000)}${']'.repeat(200_000)}` })).toEqual([
    expect.stringContaining('nested more than 16 deep'),
  ]);
});

test.each(['__proto__', 'constructor', 'toString'])('a value for the undeclared parameter %s is refused', (name) => {
  expect(messages('x', { [name]: '1' })).toEqual([expect.stringContaining('which the spec does not declare')]);
});

test.each([
  ['[1, 9007199254740993]', 'parameter "p" has the number 9007199254740993, which has no exact value'],
  ['[{ id: [-9007199254740993] }]', 'parameter "p" has the number -9007199254740993, which has no exact value'],
  ['{ default: ["1", 0x20000000000001] }', 'the default of parameter "p" has the number 0x20000000000001'],
  ['[0.12345678901234567891]', 'parameter "p" has the number 0.12345678901234567891, which has no exact value'],
  ['["3.9", 3.10]', 'parameter "p" has the number 3.10, which would become 3.1'],
  ['[0x10]', 'parameter "p" has the number 0x10, which would become 16'],
  ['[1.0]', 'parameter "p" has the number 1.0, which would become 1'],
])('a number that would be rounded is refused in a list: %s', (params, message) => {
  expect(messages(params)).toEqual([expect.stringContaining(message)]);
});

test('a number that would be rounded is refused in a list that a run sets', () => {
  const given = (p: string): readonly string[] => messages('{ type: list }', { p });
  expect(given('[1, {"id": 9007199254740993}]')).toEqual([
    expect.stringContaining('it has the number 9007199254740993, which has no exact value'),
  ]);
  expect(given('[1e999]')).toEqual([expect.stringContaining('it has the number 1e999, which has no exact value')]);
  expect(given('[3.10]')).toEqual([expect.stringContaining('it has the number 3.10, which would become 3.1')]);
  expect(given('[9007199254740991, "9007199254740993", 0.1]')).toEqual([]);
});

test('a number with more digits than a double keeps is refused', () => {
  const given = (p: string): readonly string[] => messages('{ type: number }', { p });
  expect(given('0.12345678901234567891')).toEqual([expect.stringContaining('would become 0.12345678901234568')]);
  for (const same of ['1.0', '1e3', '-0', '0.1', '1.50E+2', '5e-324']) expect(given(same), same).toEqual([]);
});

test('a single number stays as it is written, if a text is allowed', () => {
  expect(messages('9007199254740993')).toEqual([]);
  expect(messages('{ default: 9007199254740993, type: number }')).toEqual([
    expect.stringContaining('a number of this size has no exact value'),
  ]);
});
