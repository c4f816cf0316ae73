import { expect, test } from 'vitest';
import { compileText } from '../../domain/language/load.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { findPreparedStages } from './prepared-stages.ts';

function planOf(steps: string): Plan {
  const text = `api_version: v1\nkind: workflow\nname: deps\nworkflow:\n  steps:\n${steps}`;
  const { plan, diagnostics } = compileText(text, 'spec.yaml', { baseDir: '/home/ada' });
  if (plan === null) throw new Error(JSON.stringify(diagnostics));
  return plan;
}

const step = (name: string, more = ''): string => `    - { name: ${name}, run: { program: "true" }${more} }\n`;

const after = (name: string): string => `, depends_on: [${name}]`;

test('a stage comes with the earlier stages of its VM, and without the later ones', () => {
  const plan = planOf(step('fetch') + step('install', after('fetch')) + step('test', after('install')));
  expect(findPreparedStages(plan, 'install').stages.map(({ stage }) => stage.id)).toEqual(['fetch', 'install']);
  expect(findPreparedStages(plan, 'fetch').stages.map(({ work }) => work.program)).toEqual(['true']);
});

test('an unknown stage is refused with the names of the spec', () => {
  const plan = planOf(step('fetch') + step('install', after('fetch')));
  expect(() => findPreparedStages(plan, 'instal')).toThrow(
    expect.objectContaining({
      message: 'the spec has no stage "instal"',
      remedy: 'Name one of its stages: fetch, install',
    }),
  );
});

test.each([
  [
    'standard input',
    `${step('a')}    - { name: b, run: { program: "cat", stdin_from: a } }\n`,
    'b',
    'it takes data of other stages',
  ],
  ['items', '    - { name: a, for_each: ["x"], run: { program: "true" } }\n', 'a', 'it runs for each item of a list'],
  ['an approval', '    - { name: a, approval: { message: ok? } }\n', 'a', 'it has no VM'],
  [
    'a VM of its own before it',
    step('a', ', sandbox: { memory_mb: 256 }') + step('b', after('a')),
    'b',
    'it waits for stage a, which is not in its VM',
  ],
])('a stage with %s is refused with the reason', (_what, steps, name, why) => {
  expect(() => findPreparedStages(planOf(steps), name)).toThrow(`stage ${name} cannot prepare a disk: ${why}`);
});

test('a stage with a condition and a stage after a failure are refused', () => {
  const plan = planOf(step('a') + step('b', after('a')));
  const change = (fields: object): Plan => ({
    ...plan,
    stages: plan.stages.map((stage) => (stage.id === 'b' ? { ...stage, ...fields } : stage)),
  });
  expect(() => findPreparedStages(change({ when: { expression: 'true' } }), 'b')).toThrow('it has a condition');
  expect(() => findPreparedStages(change({ after: [{ stage: 'a', on: 'failure' }] }), 'b')).toThrow(
    'it runs only after a failure of stage a',
  );
});

test('a simulated VM and a writable mount are refused', () => {
  for (const [sandbox, why] of [
    ['{ mode: mock }', 'its VM is simulated'],
    ['{ mounts: [{ host: out, guest: /out, mode: rw }] }', 'its VM has the writable mount /out'],
  ])
    expect(() => findPreparedStages(planOf(step('a', `, sandbox: ${sandbox}`)), 'a')).toThrow(why);
});
