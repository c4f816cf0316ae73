// oxlint-disable typescript/no-explicit-any -- plans that break their type are the subject
import { describe, expect, test } from 'vitest';
import { compiled, problemsAfter } from '../../../test/rig/runs/plan-with-every-link.ts';
import { checkExpressions } from '../expression/check.ts';
import { compileText } from '../load.ts';

describe('a loop', () => {
  const SPEC = `kind: pipeline
name: x
pipeline:
  boxes: [{ name: a, run: { program: cat } }, { name: b, run: { program: cat } }]
  stages: [{ type: loop, name: l, boxes: [a, b], until: stages.b.json.ok, max_visits: 3 }]
`;
  const broken = (change: (plan: any) => unknown): readonly string[] => problemsAfter(compiled(SPEC), change);

  test('is admitted as the compiler makes it', () => {
    expect(broken(() => undefined)).toEqual([]);
  });

  test.each<[string, (plan: any) => unknown, RegExp]>([
    ['more visits than may be', (plan) => (plan.stages[2].loop.maxVisits = 1_001), /loop.maxVisits/],
    [
      'visits that its stages do not have',
      (plan) => (plan.stages[0].visits = 4),
      /stage a may run in 3 visits, but its `visits` is 4/,
    ],
    [
      'visits outside of it',
      (plan) => (plan.stages[2].visits = 2),
      /stage l may run in 1 visits, but its `visits` is 2/,
    ],
    [
      'a stage that it does not wait for',
      (plan) => plan.stages[2].after.splice(1),
      /stage l ends a loop and does not wait for a/,
    ],
    ['an input of no loop', (plan) => (plan.stages[0].again = ['b']), /which is not a loop around it/],
    ['a condition of its own', (plan) => (plan.stages[2].when = { source: 'true' }), /has a condition of its own/],
    [
      'what its condition does not read',
      (plan) => plan.stages[2].loop.until.stages.push('a'),
      /loop.until.stages has a/,
    ],
    [
      'a merge',
      (plan) => (plan.stages[2].work.output = { kind: 'merge', of: [{ name: 'b', stage: 'b' }] }),
      /does not return the output/,
    ],
    [
      'stages that share a VM',
      (plan) => {
        plan.stages[1].scope = 'a';
        plan.scopes = [{ ...plan.scopes[0], stages: ['a', 'b'] }];
      },
      /stage a is in the loop l and shares its VM/,
    ],
    [
      'a stage that waits for a failure',
      (plan) => (plan.stages[1].after = [{ stage: 'a', on: 'failure' }]),
      /stage b is in the loop l and waits for a failure/,
    ],
  ])('with %s is refused', (_what, change, message) => {
    expect(broken(change).join('\n')).toMatch(message);
  });

  test('may wait for a failure before the loop', () => {
    const ofFailure = broken((plan) => {
      plan.stages[0].after = [{ stage: 'early', on: 'failure' }];
      plan.stages.unshift({ ...plan.stages[0], id: 'early', scope: 'early', after: [] });
      delete plan.stages[0].visits;
      delete plan.stages[0].again;
      plan.scopes.push({ ...plan.scopes[0], id: 'early', stages: ['early'] });
    });
    expect(ofFailure).toEqual([]);
  });

  test('allows at most 5,000 executions of its stages', () => {
    const boxes = Array.from({ length: 6 }, (_, at) => `b${at}`);
    const { diagnostics } = compileText(
      `kind: pipeline
name: x
pipeline:
  boxes: [${boxes.map((name) => `{ name: ${name}, run: { program: cat } }`).join(', ')}]
  stages: [{ type: loop, name: l, boxes: [${boxes.join(', ')}], until: "true", max_visits: 1000 }]
`,
      'x.yaml',
      { baseDir: '/', checkExpression: checkExpressions },
    );
    expect(diagnostics.map(({ code, message }) => `${code} ${message}`)).toEqual([
      'spec/too-large the boxes of all loops may run 6000 times together; at most 5000 are allowed',
    ]);
  });
});
