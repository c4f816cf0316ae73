import { describe, expect, test } from 'vitest';
import { planOf } from '../../test/machine/plan-of.ts';
import { machineFromWire, machinePlanOf, machineToWire } from '../pipeline/machine-plan.ts';
import { checkPlan } from '../language/check-plan.ts';
import { findMocksToRepeat, listMockedStages, type MockRequest, withMocks } from './mocks.ts';
import type { Plan, StagePlan } from '../plan/plan.ts';
import { toWire } from '../plan/wire.ts';

const MOCK = { output: 'x', exitCode: 0 };

/** `a` and `b` share a VM; `b` takes a folder and a secret. */
function planWith(change: Readonly<Record<string, Partial<StagePlan>>>): Plan {
  const plan = planOf('a b>a c>b', { shared: 'a b' });
  return { ...plan, stages: plan.stages.map((stage) => ({ ...stage, ...change[stage.id] })) };
}

const SECRET = planWith({
  a: { mock: MOCK },
  b: {
    mock: { output: '', exitCode: 3 },
    outputs: [{ name: 'tables', guestPath: '/workspace/tables' }],
    work: {
      kind: 'command',
      program: 'true',
      args: [],
      cwd: '/workspace',
      env: [{ name: 'KEY', value: { kind: 'from-host', fromHost: 'KEY' } }],
      stdin: { kind: 'stage-output', stage: 'a' },
    },
  },
});
const PLAN: Plan = { ...SECRET, hostVariables: ['KEY'] };

function made(request: MockRequest | null, plan = PLAN): Plan {
  const result = withMocks(plan, request);
  if ('problems' in result) throw new Error(result.problems.join('\n'));
  return result.plan;
}

test('a run without a mock request mocks nothing, and its plan has no mocks left', () => {
  expect(made(null)).toEqual({
    ...planWith({}),
    stages: PLAN.stages.map(({ mock: _mock, ...stage }) => stage),
    hostVariables: ['KEY'],
  });
});

test('a mocked stage has no VM, takes no inputs, and reads no secret', () => {
  const plan = made(['b']);
  expect(plan.stages[1]).toMatchObject({
    scope: null,
    after: [{ stage: 'a', on: 'success' }],
    work: { kind: 'mock', output: '', exitCode: 3 },
    outputs: [],
  });
  expect(plan.scopes.map(({ id, stages }) => [id, stages])).toEqual([
    ['_shared', ['a']],
    ['c', ['c']],
  ]);
  expect(plan.hostVariables).toEqual([]);
  expect(listMockedStages(plan)).toEqual(['b']);
});

test('`all` mocks every stage that has a mock, and a VM without stages leaves the plan', () => {
  const plan = made('all');
  expect(listMockedStages(plan)).toEqual(['a', 'b']);
  expect(plan.scopes.map(({ id }) => id)).toEqual(['c']);
  const machine = machinePlanOf(plan);
  expect(machine.stages.map(({ mocked }) => mocked)).toEqual([true, true, undefined]);
  expect(machineFromWire(machineToWire(machine))).toEqual(machine);
});

test('the plan that runs passes the check, in both forms', () => {
  for (const plan of [made('all'), made(['a']), made(null)])
    for (const sent of [plan, toWire(plan)]) expect(checkPlan(JSON.parse(JSON.stringify(sent)))).toEqual({ plan });
});

test('a mock stands for all items of a list', () => {
  const each = { list: { kind: 'inline', items: [1, 2] }, maxParallel: 1, failFast: false, allowFailures: 0 } as const;
  expect(made('all', planWith({ c: { each, mock: MOCK } })).stages[2]!.each).toBeUndefined();
});

describe('named outputs', () => {
  const taking = (optional: boolean): Plan => {
    const inputs = [{ fromStage: 'b', output: 'tables', guestPath: '/workspace/in', optional }];
    return { ...PLAN, stages: PLAN.stages.map((stage) => (stage.id === 'c' ? { ...stage, inputs } : stage)) };
  };

  test('a stage that needs named outputs of a mocked stage reports them as missing', () => {
    expect(withMocks(taking(false), ['b'])).toEqual({
      problems: ['stage c takes the output tables of b, but a mocked stage has no named outputs: mock c too'],
    });
    expect(withMocks(taking(false), ['a'])).toHaveProperty('plan');
  });

  test('the plan drops optional inputs that name a mocked stage', () => {
    const plan = made(['b'], taking(true));
    expect(plan.stages[2]!.inputs).toEqual([]);
    expect(checkPlan(toWire(plan))).toEqual({ plan });
  });
});

test.each<[MockRequest, string]>([
  [['zzz'], 'there is no stage zzz to mock'],
  [['a', 'c'], 'stage c has no `mock`: write its result, such as `mock: { output: "…" }`'],
])('a request for %j names the mistake', (request, problem) => {
  expect(withMocks(PLAN, request)).toEqual({ problems: [problem] });
});

test('a plan without mocks has nothing to mock', () => {
  expect(withMocks(planWith({}), 'all')).toEqual({
    problems: ['no stage has `mock`, so there is nothing to mock: write its result'],
  });
});

test('a run that takes results of an earlier run mocks the same stages, if it has them', () => {
  expect(findMocksToRepeat(made('all'), PLAN)).toEqual(['a', 'b']);
  expect(findMocksToRepeat(made('all'), planOf('b c'))).toEqual(['b']);
  expect(findMocksToRepeat(made(null), PLAN)).toBeNull();
  // A mocked stage stays mocked, whatever a later request names.
  expect(made(['a'], made('all'))).toEqual(made('all'));
});
