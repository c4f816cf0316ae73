// oxlint-disable typescript/no-explicit-any -- plans that break their type are the subject
import { expect, test } from 'vitest';
import { compiled, problemsAfter } from '../../../test/rig/runs/plan-with-every-link.ts';
import { machinePlanOf } from '../../pipeline/machine-plan.ts';

const TEXT = `kind: workflow
name: x
parts:
  inner: { workflow: { steps: [{ name: a, run: { program: a } }, { name: z, finally: true, run: { program: z } }] } }
  q:
    workflow:
      steps:
        - { name: a, run: { program: a } }
        - { name: in, uses: inner, depends_on: [a], continue_on_error: true }
        - { name: each, uses: inner-alone, for_each: [1], depends_on: [in] }
        - { name: tell, on_failure: [a], run: { program: b } }
  inner-alone: { workflow: { steps: [{ name: a, run: { program: a } }] } }
workflow:
  output_step: last
  steps:
    - { name: p, uses: q, continue_on_error: true }
    - { name: last, depends_on: [p], run: { program: "true" } }
`;

function problemsOf(change: (stages: Record<string, any>, plan: any) => unknown): readonly string[] {
  return problemsAfter(compiled(TEXT), (plan, stages) => change(stages, plan));
}

test('the check admits the plan that the compiler makes of a tolerated part, and the part covers the ends within it', () => {
  expect(problemsOf(() => undefined)).toEqual([]);
  const covers = machinePlanOf(compiled(TEXT)).stages.flatMap((stage) =>
    stage.covers === undefined ? [] : [[stage.id, stage.covers]],
  );
  expect(covers).toEqual([
    ['p.in', ['p.in.a']],
    ['p', ['p.a', 'p.in.a', 'p.in', 'p.each', 'p.tell']],
  ]);
});

test.each<[string, (stages: Record<string, any>, plan: any) => unknown, RegExp]>([
  [
    'a stage that the end does not wait for',
    (s) =>
      s['p'].after.splice(
        s['p'].after.findIndex((e: any) => e.stage === 'p.tell'),
        1,
      ),
    /does not wait for its stage p\.tell/,
  ],
  [
    'a stage outside that needs one within',
    (s) => s['last'].after.push({ stage: 'p.a', on: 'success' }),
    /last needs p\.a of the part p/,
  ],
  [
    'a VM of stages within and outside',
    (s, plan) => {
      plan.scopes.find((scope: any) => scope.stages.includes('last')).stages.push('p.in.a');
      plan.scopes = plan.scopes.filter((scope: any) => scope.stages.join() !== 'p.in.a');
      s['p.in.a'].scope = s['last'].scope;
    },
    /scope _shared has stages inside and outside of the part p\.in/,
  ],
  [
    'two parts with a stage in common',
    (s) => s['p'].work.stages.splice(s['p'].work.stages.indexOf('p.in'), 1),
    /the parts p\.in and p share stages/,
  ],
])('%s is refused', (_name, change, problem) => {
  expect(problemsOf(change).join('\n')).toMatch(problem);
});
