// oxlint-disable typescript/no-explicit-any -- plans that break their type are the subject
import { expect, test } from 'vitest';
import { compiled, problemsAfter } from '../../../test/rig/runs/plan-with-every-link.ts';

const TEXT = `kind: workflow
name: x
parts:
  p:
    workflow:
      steps:
        - { name: a, run: { program: "true" }, sandbox: { memory_mb: 256, mounts: [{ host: /d, guest: /d }] } }
        - { name: b, run: { program: cat, stdin_from: a }, when: stages.a.exit_code == 0 }
        - { name: c, run: { program: cat }, depends_on: [b] }
workflow:
  output_step: last
  steps:
    - { name: first, run: { program: "true" } }
    - { name: each, uses: p, for_each: [1, 2], depends_on: [first], when: stages.first.exit_code == 0 }
    - { name: last, depends_on: [each], run: { program: "true" } }
`;

function problemsOf(change: (stages: Record<string, any>, plan: any) => unknown): readonly string[] {
  return problemsAfter(compiled(TEXT), (plan, stages) => change(stages, plan));
}

test('the check admits the plan that the compiler makes of a part for each item', () => {
  expect(problemsOf(() => undefined)).toEqual([]);
});

test.each<[string, (stages: Record<string, any>, plan: any) => unknown, RegExp]>([
  ['an owner that does not exist', (s) => (s['each.a'].of = 'nobody'), /belongs to nobody, which does not end a part/],
  ['an owner without items', (s) => delete s['each'].each, /belongs to each, which does not end a part/],
  ['an owner that is a command', (s) => (s['each.a'].of = 'first'), /belongs to first, which does not end a part/],
  ['an owner that owns itself', (s) => (s['each'].of = 'each'), /of more than 4 nested lists/],
  [
    'a stage of the part that belongs to none',
    (s) => delete s['each.b'].of,
    /must list exactly the stages that belong to it/,
  ],
  [
    'a part that does not say its stage',
    (s) => s['each'].work.stages.pop(),
    /must list exactly the stages that belong to it/,
  ],
  ['an edge into items', (s) => s['last'].after.push({ stage: 'each.a', on: 'end' }), /last depends on each\.a/],
  ['an edge out of items', (s) => s['each.c'].after.push({ stage: 'first', on: 'end' }), /each\.c depends on first/],
  ['a condition on items', (s) => (s['last'].when = { ...s['each.b'].when }), /condition of stage last reads each\.a/],
  [
    'an end that waits for nothing of what it hands on',
    (s) => (s['each'].after = s['each'].after.slice(0, 1)),
    /returns the output of each\.c, but does not wait/,
  ],
  ['an end that hands on another output', (s) => (s['each'].work.output.stage = 'first'), /the output of first, but/],
  ['an end with an input', (s) => (s['each'].input = { kind: 'run-input' }), /has another input than the item/],
  [
    'an end with a name that is too long',
    (s, plan) => renamed(plan, s, 'x'.repeat(200)),
    /64 characters|at most|Too big/,
  ],
  ['`finally` in an item', (s) => (s['each.c'].finally = true), /each item and has `finally`/],
  ['items in an item that share its VM', (s) => (s['each.c'].each = s['each'].each), /each item and shares its VM/],
  [
    'a writable mount in an item',
    (_s, plan) => (plan.scopes.find((scope: any) => scope.id === 'each.a').sandbox.mounts[0].mode = 'rw'),
    /each item and has a writable mount/,
  ],
  [
    'a scope with stages of an item and others',
    (s, plan) => {
      const scope = plan.scopes.find(({ id }: any) => id === 'each._shared');
      scope.stages.push('first');
      s['first'].scope = 'each._shared';
    },
    /mixes stages of an item with other stages/,
  ],
  [
    'a result of items',
    (_s, plan) => (plan.output.stage = 'each.c'),
    /the run's output is the output of stage each\.c/,
  ],
  ['too many attempts', (s) => ['a', 'b'].map((id) => attempts(s, id, 100)), /one item of "each" may take/],
])('%s is refused', (_what, change, problem) => {
  expect(problemsOf(change)).toEqual(expect.arrayContaining([expect.stringMatching(problem)]));
});

/** Sets the attempts of a stage, and visits, because each visit of a loop counts. */
function attempts(stages: Record<string, any>, id: string, most: number): void {
  const stage = stages[`each.${id}`];
  stage.retry = { ...stage.retry, maxAttempts: most };
  stage.visits = 40;
}

function renamed(plan: any, stages: Record<string, any>, name: string): void {
  for (const stage of Object.values(stages)) if (stage.of === 'each') stage.of = name;
  plan.stages.find(({ id }: any) => id === 'each').id = name;
}
