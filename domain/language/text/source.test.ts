import { expect, test } from 'vitest';
import { checkExpressions } from '../expression/check.ts';
import { compileText } from '../load.ts';

const problemsIn = (args: string): readonly string[] =>
  compileText(
    `kind: workflow\nname: x\nworkflow:\n  steps:\n    - name: a\n      run: { program: cat, args: ${args} }\n`,
    'x.yaml',
    { baseDir: '/' },
  ).diagnostics.map(({ line, column, message }) => `${line}:${column} ${message}`);

test.each(['[-]', '[-, x]', '[x, -]'])('a dash without quotes has its own message: %s', (args) => {
  expect(problemsIn(args)).toEqual([expect.stringMatching(/^6:\d+ a `-` without quotes begins an item of a list$/)]);
});

test.each(['["x]', "['x]"])('an unclosed quote is an error at its start: %s', (args) => {
  expect(problemsIn(args)).toEqual(['6:35 the quote that opens here is not closed']);
});

test('a parameter without a type has the type of its default', () => {
  const compile = (when: string, params: Readonly<Record<string, string>> = {}): readonly string[] =>
    compileText(
      `kind: workflow\nname: x\nparams: { n: 3, b: true, id: 9007199254740993 }\nworkflow: { steps: [{ name: a, when: '${when}', run: { program: a } }] }\n`,
      'x.yaml',
      { baseDir: '/', params, checkExpression: checkExpressions },
    ).diagnostics.map(({ message }) => message);
  expect(compile('params.n > 2 && params.b && params.id == "9007199254740993"')).toEqual([]);
  expect(compile('params.n == "3"')).toEqual([expect.stringContaining('no such overload')]);
  expect(compile('params.n > 2', { n: 'x' })).toEqual([expect.stringContaining('a number is needed')]);
});
