import { expect, test } from 'vitest';
import { compiled, problemsAfter } from '../../../test/rig/runs/plan-with-every-link.ts';
import { compileText } from '../load.ts';

function messagesOf(steps: string): readonly string[] {
  const text = `kind: workflow\nname: x\nworkflow:\n  output_step: q\n  steps:\n${steps}`;
  const { diagnostics } = compileText(text, 'x.yaml', { baseDir: '/' });
  return diagnostics.filter(({ severity }) => severity === 'error').map(({ line, message }) => `${line}: ${message}`);
}

const step = (name: string, outputs: readonly string[], more = ''): string =>
  `    - { name: ${name}, run: { program: x }, outputs: [${outputs.map((output) => `{ name: ${output} }`).join(', ')}]${more} }\n`;

test.each([
  [
    'two outputs',
    step('a', ['b.c']) + step('a.b', ['c']),
    '7: the output "c" of "a.b" is named "a.b.c", and so is the output "b.c" of "a"',
  ],
  [
    'an output and a stage',
    step('a', ['b']) + step('a.b', []),
    '6: the output "b" of "a" is named "a.b", and so is the stage "a.b"',
  ],
  [
    'an output and one of another stage',
    step('a', ['b']) + step('z', ['a.b']),
    '6: the output "b" of "a" is named "a.b", and so is the output "a.b" of "z"',
  ],
])('%s with one name are an error at its place', (_what, steps, message) => {
  expect(messagesOf(`${steps}    - { name: q, depends_on: [a], run: { program: x } }\n`)).toEqual([message]);
});

test.each([
  ['two outputs with a name', step('a', ['o']) + step('b', ['o'])],
  ['an output and its stage', step('a', ['a', 'b.c'])],
  ['dots at other places', step('a.b', ['c']) + step('a', ['c.b', 'd'])],
])('%s have different names', (_what, steps) => {
  expect(
    messagesOf(`${steps}    - { name: q, depends_on: [${/name: (\S+),/.exec(steps)![1]}], run: { program: x } }\n`),
  ).toEqual([]);
});

test('an output with the name of the transcript of its agent is an error', () => {
  const agent = '    - { name: a, prompt: x, outputs: [{ name: transcript.jsonl }] }\n';
  const text = `kind: workflow\nname: x\nllm: { provider: claude }\nworkflow:\n  steps:\n${agent}`;
  const { diagnostics } = compileText(text, 'x.yaml', { baseDir: '/' });
  expect(diagnostics.map(({ message }) => message)).toContain(
    'the output "transcript.jsonl" of "a" is named "a.transcript.jsonl", and so is the output "transcript.jsonl" of "a"',
  );
});

test('a plan of a client is checked like a spec', () => {
  const steps = `${step('a', ['b'])}${step('ab', ['c'])}    - { name: q, depends_on: [a, ab], run: { program: x } }\n`;
  const plan = compiled(`kind: workflow\nname: x\nworkflow:\n  output_step: q\n  steps:\n${steps}`);
  const rename = (sent: { stages: { outputs: { name: string }[] }[] }): void => {
    sent.stages[0]!.outputs[0]!.name = 'b.c';
    const text = JSON.stringify(sent).replaceAll('"ab"', '"a.b"');
    Object.assign(sent, JSON.parse(text));
  };
  expect(problemsAfter(plan, rename as never)).toEqual([
    'the output "c" of "a.b" is named "a.b.c", and so is the output "b.c" of "a"',
  ]);
});
