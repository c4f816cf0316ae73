import { expect, test } from 'vitest';
import { compileText } from '../load.ts';

const OPTIONS = { baseDir: '/home/me/spec', params: {} };

function workflow(steps: string, head = ''): string {
  return `api_version: v1
${head}kind: workflow
name: w
sandbox:
  mounts: [{ host: out, guest: /out, mode: rw }]
workflow:
  output_step: last
  steps:
${steps}`;
}

const step = (name: string, more = ''): string => `    - { name: ${name}, ${more}run: { program: "true" } }\n`;

function warnings(text: string): readonly string[] {
  const { plan, diagnostics } = compileText(text, 'spec.yaml', OPTIONS);
  expect(plan, JSON.stringify(diagnostics)).not.toBeNull();
  expect(diagnostics.map(({ severity, code }) => `${severity} ${code}`)).toEqual(
    diagnostics.map(() => 'warning spec/unordered-writers'),
  );
  return diagnostics.map(({ line, message }) => `${line}: ${message.split(':')[0]}`);
}

test('steps without an order that share a writable mount cause one warning, at the second step', () => {
  expect(warnings(workflow(step('a') + step('b') + step('c') + step('last', 'depends_on: [a, b, c], ')))).toEqual([
    '10: steps "a" and "b" may run at the same time, and both can write to the mount of /home/me/spec/out',
  ]);
});

test('steps with an order cause no warning, also if other steps are between them', () => {
  expect(
    warnings(
      workflow(
        step('a') + step('b', 'depends_on: [a], ') + `    - { name: last, run: { program: cat, stdin_from: b } }\n`,
      ),
    ),
  ).toEqual([]);
});

test('steps that never run at the same time cause no warning', () => {
  expect(warnings(workflow(step('a') + step('last'), 'max_parallel: 1\n'))).toEqual([]);
});

test('a read-only mount causes no warning', () => {
  expect(warnings(workflow(step('a') + step('last')).replace('mode: rw', 'mode: ro'))).toEqual([]);
});

test('concurrent boxes have VMs of their own, but share the host folder', () => {
  const spec = (stages: string): string => `api_version: v1
kind: pipeline
name: p
pipeline:
  boxes:
    - { name: a, sandbox: { mounts: [{ host: out, guest: /out, mode: rw }] }, run: { program: "true" } }
    - { name: b, sandbox: { mounts: [{ host: out/deep, guest: /in, mode: rw }] }, run: { program: "true" } }
    - { name: c, run: { program: "true" } }
  stages:
${stages}`;
  expect(warnings(spec('    - { type: fan_out, boxes: [a, b] }\n    - { type: box, name: c }\n'))).toEqual([
    '7: boxes "a" and "b" may run at the same time, and both can write to the mount of /home/me/spec/out',
  ]);
  expect(
    warnings(spec('    - { type: box, name: a }\n    - { type: box, name: b }\n    - { type: box, name: c }\n')),
  ).toEqual([]);
});

test('the check of 2,000 steps is fast', () => {
  const names = Array.from({ length: 1_999 }, (_, index) => `s${index}`);
  const chain = names.map((name, index) => step(name, index === 0 ? '' : `depends_on: [s${index - 1}], `)).join('');
  expect(warnings(workflow(`${chain}${step('last', 'depends_on: [s1998], ')}`))).toEqual([]);
});

test('a step that could not be read is reported, and not checked for mounts', () => {
  const text = `kind: workflow
name: x
sandbox: { mounts: [{ host: /data, guest: /data, mode: rw }] }
workflow:
  output_step: b
  steps:
    - { name: a }
    - { name: b, run: { program: "true" } }
`;
  expect(compileText(text, 'x.yaml', { baseDir: '/' }).diagnostics.map(({ code, line }) => [code, line])).toEqual([
    ['spec/missing-key', 7],
  ]);
});
