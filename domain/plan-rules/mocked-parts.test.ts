import { describe, expect, test } from 'vitest';
import { machinePlanOf } from '../pipeline/machine-plan.ts';
import { checkExpressions } from '../language/expression/check.ts';
import { compileText } from '../language/load.ts';
import { checkPlan } from '../language/check-plan.ts';
import { findMocksToRepeat, listMockedStages, type MockRequest, withMocks } from './mocks.ts';
import type { Plan } from '../plan/plan.ts';
import { toWire } from '../plan/wire.ts';

const STEPS = `
    - { name: build, run: { program: make } }
    - { name: old, run: { program: make } }
    - { name: checks, uses: checks, depends_on: [build], when: 'stages.old.state == "passed"', mock: { exit_code: 3 } }
    - { name: each, uses: checks, for_each: [a, b], depends_on: [build], mock: { output: [1] } }
    - { name: after, depends_on: [checks, each], run: { program: cat, stdin_from: each } }
    - { name: notify, on_failure: [checks, build], run: { program: notify } }`;

function planOf(steps = STEPS): Plan {
  const text = `kind: workflow
name: parts
parts:
  checks:
    secrets: [KEY]
    workflow:
      steps:
        - { name: lint, run: { program: lint }, secrets: [KEY] }
        - { name: sum, uses: sum, depends_on: [lint], mock: { output: "7" } }
        - { name: end, depends_on: [sum], run: { program: cat, stdin_from: sum } }
  sum: { pipeline: { boxes: [{ name: wc, run: { program: wc } }] } }
workflow:
  output_step: after
  steps:${steps}`;
  const { plan, diagnostics } = compileText(text, 'spec.yaml', { baseDir: null, checkExpression: checkExpressions });
  if (plan === null) throw new Error(JSON.stringify(diagnostics));
  return plan;
}

function made(request: MockRequest | null, plan = planOf()): Plan {
  const result = withMocks(plan, request);
  if ('problems' in result) throw new Error(result.problems.join('\n'));
  // The plan that runs passes the check, in both forms.
  for (const sent of [result.plan, toWire(result.plan)])
    expect(checkPlan(JSON.parse(JSON.stringify(sent)))).toEqual({ plan: result.plan });
  return result.plan;
}

const idsOf = ({ stages }: Pick<Plan, 'stages'>): readonly string[] => stages.map(({ id }) => id);

test('a mocked part has the result of its mock, and no stage of the part is left', () => {
  const plan = made(['checks', 'each']);
  expect(idsOf(plan)).toEqual(['build', 'old', 'checks', 'each', 'after', 'notify']);
  expect(plan.scopes.flatMap(({ stages }) => stages)).toEqual(['build', 'old', 'after', 'notify']);
  expect(plan.hostVariables).toEqual([]);
  expect(plan.stages[2]).toMatchObject({
    work: { kind: 'mock', output: '', exitCode: 3 },
    after: [
      { stage: 'old', on: 'success' },
      { stage: 'build', on: 'success' },
    ],
    when: { stages: ['old'] },
  });
  expect(plan.stages[3]).toMatchObject({ work: { kind: 'mock', output: '[1]' }, after: [{ stage: 'build' }] });
  expect(plan.stages[3]!.each).toBeUndefined();
  expect(machinePlanOf(plan).stages[3]).toMatchObject({ mocked: true });
});

test('a mocked stage outside of the mocked parts keeps its place', () => {
  const steps = STEPS.replace('run: { program: make } }', 'run: { program: make }, mock: { output: built } }');
  const plan = made('all', planOf(steps));
  expect(listMockedStages(plan)).toEqual(['build', 'checks', 'each']);
  expect(plan.stages.slice(0, 2)).toMatchObject([
    { id: 'build', work: { kind: 'mock', output: 'built' }, after: [] },
    { id: 'old', work: { kind: 'command' }, after: [] },
  ]);
});

test('a stage that waits for a failure of the part waits for a failure of the mock', () => {
  expect(planOf().stages.at(-1)!.after.length).toBeGreaterThan(2);
  expect(made(['checks']).stages.at(-1)).toMatchObject({
    after: [
      { stage: 'build', on: 'failure' },
      { stage: 'checks', on: 'failure' },
    ],
    anyFailure: true,
  });
});

describe('a part within a part', () => {
  test('the inner part can be mocked without the outer one, once and for each item', () => {
    const plan = made(['checks.sum', 'each.sum']);
    expect(listMockedStages(plan)).toEqual(['checks.sum', 'each.sum']);
    expect(idsOf(plan)).not.toContain('checks.sum.wc');
    expect(plan.stages.find(({ id }) => id === 'each.sum')).toMatchObject({
      of: 'each',
      after: [{ stage: 'each.lint', on: 'success' }],
    });
    expect(plan.stages.find(({ id }) => id === 'each')!.work).toMatchObject({
      stages: ['each.lint', 'each.sum', 'each.end'],
    });
  });

  test('the inner part is gone if the outer part is mocked too', () => {
    expect(listMockedStages(made('all'))).toEqual(['checks', 'each']);
    expect(idsOf(made(['checks', 'checks.sum']))).toEqual(idsOf(made(['checks'])));
  });
});

test('`finally` stages of a mocked part leave the plan, and so does their grace', () => {
  const text = `kind: workflow
name: last
parts: { p: { workflow: { steps: [{ name: a, run: { program: a } }, { name: z, finally: true, run: { program: z } }] } } }
workflow: { steps: [{ name: p, uses: p, mock: {} }] }`;
  const { plan } = compileText(text, 'spec.yaml', { baseDir: null, checkExpression: checkExpressions });
  expect(made(null, plan!).graceMs).toBeDefined();
  expect(made(['p'], plan!)).toMatchObject({ stages: [{ id: 'p' }], scopes: [] });
  expect(made(['p'], plan!).graceMs).toBeUndefined();
});

test('a retry mocks the part again', () => {
  expect(findMocksToRepeat(made(['each']), planOf())).toEqual(['each']);
});

test('the run rejects a plan from outside if its stages take data of a stage in a mocked part', () => {
  const plan = planOf();
  const stages = plan.stages.map((stage) =>
    stage.id === 'after' ? { ...stage, input: { kind: 'carry', stage: 'checks.lint' } as const } : stage,
  );
  expect(withMocks({ ...plan, stages }, ['checks'])).toEqual({
    problems: [
      'stage after takes the result of stage checks.lint, which does not run if checks is mocked: take the output of checks',
    ],
  });
  expect(withMocks({ ...plan, output: { kind: 'stage', stage: 'checks.end' } }, ['checks'])).toEqual({
    problems: [
      "the run's result takes the result of stage checks.end, which does not run if checks is mocked: take the output of checks",
    ],
  });
});
