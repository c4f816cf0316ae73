// oxlint-disable typescript/no-explicit-any -- plans that break their type are the subject
import { describe, expect, test } from 'vitest';
import { compiled, problemsAfter, TWO_STEPS } from '../../../test/rig/runs/plan-with-every-link.ts';

function problemsOf(change: (plan: any) => unknown): readonly string[] {
  return problemsAfter(compiled(TWO_STEPS), change);
}

describe('a stage with `finally`', () => {
  const withLast = (change: (plan: any, last: any) => unknown = () => undefined): readonly string[] =>
    problemsOf((plan) => {
      const [first] = plan.stages;
      const last = { ...first, id: 'last', scope: 'last', finally: true, outputs: [], input: { kind: 'none' } };
      plan.stages.push(last);
      plan.scopes.push({ ...plan.scopes[0], id: 'last', stages: ['last'] });
      plan.graceMs = 60_000;
      change(plan, last);
    });

  test('may have a mock, as in the retry of a run that mocked it', () => {
    expect(
      withLast((plan, last) => {
        last.work = { kind: 'mock', output: '', exitCode: 0 };
        last.scope = null;
        plan.scopes.pop();
      }),
    ).toEqual([]);
  });

  test('is admitted, also with an optional input and a condition on another stage', () => {
    const taken = { fromStage: 'a', output: 'o', guestPath: '/workspace/in', optional: true };
    expect(withLast()).toEqual([]);
    expect(withLast((_plan, last) => (last.inputs = [taken]))).toEqual([]);
    expect(
      withLast((_plan, last) => (last.when = { source: 'stages.b.state == "failed"', stages: ['b'], params: {} })),
    ).toEqual([]);
  });

  test.each<[string, (plan: any, last: any) => unknown, string]>([
    ['after others', (_plan, last) => (last.after = ['a']), 'stage last has `finally` and depends on others'],
    ['before others', (plan) => (plan.stages[1].after = ['a', 'last']), 'stage b depends on last, which has `finally`'],
    ['no time', (plan) => delete plan.graceMs, 'graceMs is missing, although stages have `finally`'],
    [
      'the result',
      (plan) => (plan.output = { kind: 'stage', stage: 'last' }),
      "the run's output is the output of stage last, which has `finally`",
    ],
    [
      'outputs',
      (_plan, last) => (last.outputs = [{ name: 'x', guestPath: '/workspace/x' }]),
      'stage last has `finally`, so it must be a command without named outputs and without `each`',
    ],
    [
      'data that it demands',
      (_plan, last) => (last.inputs = [{ fromStage: 'a', output: 'o', guestPath: '/workspace/in' }]),
      'stage last uses data of a, which may be absent: that stage may fail or be passed, and this one still starts',
    ],
    [
      'a carry',
      (_plan, last) => (last.input = { kind: 'carry', stage: 'a' }),
      'stage last has `finally` and takes its input from other stages',
    ],
    [
      'the VM of others',
      (plan, last) => {
        last.scope = '_shared';
        plan.scopes.pop();
        plan.scopes[0].stages.push('last');
      },
      'stage last has `finally` and shares its VM',
    ],
    [
      'a VM that stays for its attempts',
      (plan) => {
        plan.scopes.at(-1).keepsVm = true;
      },
      'stage last has `finally` and shares its VM',
    ],
    [
      'no other stage',
      (plan) => {
        for (const stage of plan.stages) Object.assign(stage, { finally: true });
      },
      'every stage has `finally`',
    ],
    [
      'sixteen others',
      (plan, last) => {
        for (let more = 0; more < 16; more += 1) {
          plan.stages.push({ ...last, id: `m${more}`, scope: `m${more}` });
          plan.scopes.push({ ...plan.scopes.at(-1), id: `m${more}`, stages: [`m${more}`] });
        }
      },
      '17 stages have `finally`; at most 16 are allowed',
    ],
  ])('with %s is refused', (_what, change, problem) => {
    expect(withLast(change)).toContain(problem);
  });

  test('is missing if the plan has a time for it', () => {
    expect(problemsOf((plan) => (plan.graceMs = 60_000))).toEqual(['graceMs is set, but no stage has `finally`']);
  });
});
