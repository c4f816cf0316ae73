/** Merge keys of YAML, which are rejected, and keys for anchors, which are free. */
import { expect, test } from 'vitest';
import { compileText } from './load.ts';

const diagnose = (text: string): readonly string[] =>
  compileText(text, 'x.yaml', { baseDir: '/' }).diagnostics.map(
    ({ line, column, code, severity }) => `${line}:${column} ${severity} ${code}`,
  );

const STEP = '    - { name: a, run: "true" }\n';

test.each([
  ['a step', `workflow:\n  steps:\n    - &a { name: a, run: "true" }\n    - { <<: *a, name: b }\n`, '6:9'],
  ['a step without a name', `workflow:\n  steps:\n    - &a { name: a, run: "true" }\n    - <<: *a\n`, '6:7'],
  ['the command', `x-run: &r { program: ls }\nworkflow:\n  steps: [{ name: a, run: { <<: *r, args: [x] } }]\n`, '5:29'],
  ['variables', `x-env: &e { A: b }\nworkflow:\n  steps: [{ name: a, run: "true", env: { <<: *e, C: d } }]\n`, '5:42'],
  [
    'values of a list',
    `x-i: &i { a: 1 }\nworkflow:\n  steps: [{ name: a, run: "true", for_each: [{ <<: *i, b: 2 }] }]\n`,
    '5:48',
  ],
  ['the spec', `x-s: &s { max_parallel: 2 }\n<<: *s\nworkflow:\n  steps:\n${STEP}`, '4:1'],
  [
    'a part',
    `x-p: &p { workflow: { steps: [{ name: s, run: ls }] } }\nparts: { p: { <<: *p } }\nworkflow:\n  steps: [{ name: a, uses: p }]\n`,
    '4:15',
  ],
  [
    'a mount',
    `x-m: &m { host: /tmp }\nsandbox: { mounts: [{ <<: *m, guest: /data }] }\nworkflow:\n  steps:\n${STEP}`,
    '4:23',
  ],
  [
    'a step that others need',
    `x-d: &d { depends_on: [x] }\nworkflow:\n  steps:\n    - { name: fetch, depends_on: [report], run: ls }\n    - { <<: *d, run: ls }\n`,
    '7:9',
  ],
])('a merge key in %s is one error', (_what, body, at) => {
  expect(diagnose(`kind: workflow\nname: x\n${body}`)).toEqual([`${at} error spec/unsupported`]);
});

test('a mapping that aliases repeat has its error once', () => {
  const body = `x-e: &e { A: b }\nx-v: &v { <<: *e, C: d }\nworkflow:\n  steps: [{ name: a, run: ls, env: *v }, { name: b, run: ls, env: *v }]\n`;
  expect(diagnose(`kind: workflow\nname: x\n${body}`)).toEqual(['4:11 error spec/unsupported']);
});

test('a key in quotes that looks like a merge key is a key', () => {
  const body = `workflow:\n  steps: [{ name: a, run: "true", for_each: [{ "<<": 1 }] }]\n`;
  expect(diagnose(`kind: workflow\nname: x\n${body}`)).toEqual([]);
});

test('keys that begin with x- are free in every mapping, and may hold anchors', () => {
  const { plan, diagnostics } = compileText(
    `kind: workflow
name: x
x-env: &env { A: b }
sandbox: { x-note: small, memory_mb: 256 }
workflow:
  x-run: &run { program: ls, x-why: list }
  steps: [{ name: a, run: *run, env: *env, x-owner: [ada] }]
`,
    'x.yaml',
    { baseDir: null },
  );
  expect(diagnostics).toEqual([]);
  expect(plan!.stages[0]!.work).toMatchObject({ program: 'ls', env: [{ name: 'A', value: { text: 'b' } }] });
});
