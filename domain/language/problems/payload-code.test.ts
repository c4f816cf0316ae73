import { describe, expect, test } from 'vitest';
import { checkExpressions } from '../expression/check.ts';
import { type CompiledText, compileText } from '../load.ts';

const PARAMS = {
  text: 'x',
  list: [],
  number: 1,
  flag: true,
  choice: { choices: ['a', 'b'], default: 'a' },
  fixed: 'x',
};

/** A spec with a trigger that fills each parameter but `fixed` from the payload. */
function compile(stage: object, others: object = {}, params: Readonly<Record<string, string>> = {}): CompiledText {
  const filled = Object.keys(PARAMS).map((name) => [name, name === 'fixed' ? 'y' : `\${{ input.${name} }}`]);
  const on = [{ name: 'hook', webhook: { verify: 'none' }, params: Object.fromEntries(filled) as object }];
  const spec = { kind: 'pipeline', name: 'x', params: PARAMS, on, pipeline: { boxes: [{ name: 'a', ...stage }] } };
  return compileText(JSON.stringify({ ...spec, ...others }), 'x.json', {
    baseDir: '/',
    params,
    checkExpression: checkExpressions,
    readSpec: (path) => (path === '/part.yaml' ? { text: PART } : { problem: 'there is no such file' }),
  });
}

const PART = `
kind: workflow
name: part
params: { inner: x, other: x }
workflow:
  steps:
    - name: code
      run: { program: sh, args: [-c, "echo \${{ params.inner }}"] }
`;

const problemsOf = ({ deployProblems }: CompiledText): readonly string[] =>
  deployProblems.map(({ code, severity, file, message }) => `${file}: ${severity} ${code}: ${message}`);

describe('a payload', () => {
  test.each([
    ['as a program', { run: { program: '${{ params.text }}' } }],
    ['in the script of a shell', { run: { program: 'sh', args: ['-c', 'echo ${{ params.text }}'] } }],
    ['in a program behind another one', { run: { program: 'env', args: ['python3', '-c', '${{ params.list }}'] } }],
  ])('that is a text or a list is refused %s', (_where, stage) => {
    expect(problemsOf(compile(stage))).toEqual([expect.stringContaining('x.json: error spec/payload-code: a trigger')]);
  });

  test.each(['number', 'flag', 'choice', 'fixed'])('that cannot be code may be in a script: %s', (name) => {
    const stage = { run: { program: 'sh', args: ['-c', `echo \${{ params.${name} }}`] } };
    expect(problemsOf(compile(stage))).toEqual([]);
  });

  test.each([
    ['an argument', { run: { program: 'printf', args: ['%s', '${{ params.text }}'] } }],
    ['a variable', { run: { program: 'sh', args: ['-c', 'echo "$TEXT"'] }, env: { TEXT: '${{ params.text }}' } }],
    ['a word of a shell text', { run: 'echo ${{ params.text }}' }],
    ['a prompt', { prompt: 'Review ${{ params.text }}.' }],
    [
      'the ref of a workspace',
      { prompt: 'x', workspace: { git: 'https://example.com/a.git', ref: '${{ params.text }}' } },
    ],
    [
      'the ref of a sent repository, if no payload fills it',
      { prompt: 'x', workspace: { git: '.', ref: '${{ params.fixed }}' } },
    ],
  ])('is data as %s', (_place, stage) => {
    expect(problemsOf(compile(stage))).toEqual([]);
  });

  test.each(['text', 'choice', 'number'])('chooses no repository: %s', (name) => {
    const git = `https://example.com/\${{ params.${name} }}.git`;
    expect(problemsOf(compile({ prompt: 'x', workspace: { git } }))).toEqual([
      `x.json: error spec/payload-code: a trigger fills the parameter "${name}" from a payload, and stage "a" has it in \`git\` of its workspace`,
    ]);
  });

  test.each(['text', 'choice', 'number'])('chooses no commit of a repository that is sent: %s', (name) => {
    expect(problemsOf(compile({ prompt: 'x', workspace: { git: '.', ref: `\${{ params.${name} }}` } }))).toEqual([
      `x.json: error spec/payload-code: a trigger fills the parameter "${name}" from a payload, and stage "a" has it as \`ref\` of a repository that \`voidbox deploy\` sends with one commit`,
    ]);
  });

  test('is followed into a part of another file', () => {
    const found = compile({ uses: './part.yaml', with: { inner: 'say ${{ params.text }}' } });
    expect(problemsOf(found)).toEqual([expect.stringContaining('part.yaml: error spec/payload-code')]);
    expect(problemsOf(compile({ uses: './part.yaml', with: { other: '${{ params.text }}' } }))).toEqual([]);
    expect(problemsOf(compile({ uses: './part.yaml', with: { inner: '${{ params.fixed }}' } }))).toEqual([]);
  });

  test('is followed through parts of parts, which may use each other', () => {
    const use = (name: string, given: string): object => ({
      params: { v: 'x' },
      workflow: { steps: [{ name: 'u', uses: name, with: { [given]: '${{ params.v }}' } }] },
    });
    const parts = { outer: use('middle', 'v'), middle: use('./part.yaml', 'inner') };
    const found = compile({ uses: 'outer', with: { v: '${{ params.text }}' } }, { parts });
    expect(problemsOf(found)).toEqual([expect.stringContaining('part.yaml: error spec/payload-code')]);
  });

  test('that looks like a placeholder or an option is an argument as it is', () => {
    const stage = { run: { program: 'printf', args: ['${{ params.text }}', '${{ params.fixed }}'] } };
    for (const text of ['${{ params.fixed }}', '$(reboot)', '--help', '"; reboot; "']) {
      const { plan } = compile(stage, {}, { text });
      expect(plan!.stages[0]!.work).toMatchObject({ args: [text, 'x'] });
    }
  });
});
