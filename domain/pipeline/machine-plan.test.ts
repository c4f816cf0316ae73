import { expect, test } from 'vitest';
import { machineOf, planOf } from '../../test/machine/plan-of.ts';
import { commandOf } from '../plan/work.ts';
import { machineFromWire, machinePlanOf, machineToWire, dataTakenBy } from './machine-plan.ts';

test('the plan is read back from its wire form, whatever that leaves out', () => {
  for (const machine of [
    machineOf('a'),
    machineOf('a:3 b>a,a c>b!,a~', { shared: 'a b', backoffMs: 5, carry: true }),
    machineOf('a:3', { retry: { factor: 1.5, maxBackoffMs: 9, nonRetryable: ['exit:2'] } }),
    machineOf('a b>a c>b', { tolerate: 'b', chain: true }),
    machineOf('a b>a', { wait: 'a' }),
    machineOf('a b c>a,b d>c', { mixed: true, tolerate: 'c' }),
    machineOf('a b c>a!,b!', { anyFailure: 'c' }),
    { ...machineOf('a'), timeoutMs: 9 },
    machineOf('a b', { finally: 'b', graceMs: 9 }),
    machineOf('a b>a c', { ask: 'b', bare: 'c', merge: 'a b' }),
  ])
    expect(machineFromWire(JSON.parse(JSON.stringify(machineToWire(machine))) as typeof machine)).toEqual(machine);
});

test('the wire form of a stage with the defaults is short', () => {
  const plan = planOf('a b>a', { carry: true });
  const machine = machinePlanOf({ ...plan, stages: plan.stages.map((stage) => ({ ...stage, timeoutMs: 3_600_000 })) });
  expect(machineToWire(machine).stages).toEqual([{ id: 'a' }, { id: 'b', after: ['a'], takes: [{ stage: 'a' }] }]);
});

test('the plan contains nothing of the work of a stage', () => {
  const plan = planOf('a');
  const secretive = {
    ...plan,
    stages: plan.stages.map((stage) => ({
      ...stage,
      work: { ...stage.work, program: 'the-program', args: ['the-argument'] },
    })),
  };
  expect(JSON.stringify(machineToWire(machinePlanOf(secretive)))).not.toMatch(/the-program|the-argument/);
});

test('a stage takes each output of a source once, whether for standard input, input or inputs', () => {
  const [stage] = planOf('a').stages;
  expect(
    dataTakenBy({
      work: { ...commandOf(stage!.work)!, stdin: { kind: 'stage-output', stage: 'x' } },
      input: { kind: 'merge', stages: ['x', 'y'] },
      inputs: [
        { fromStage: 'y', output: 'one', guestPath: '/a', optional: false },
        { fromStage: 'y', output: 'one', guestPath: '/b', optional: false },
        { fromStage: 'z', output: 'two', guestPath: '/c', optional: false },
      ],
    }),
  ).toEqual([
    { stage: 'y', output: true, outputs: ['one'] },
    { stage: 'z', output: false, outputs: ['two'] },
    { stage: 'x', output: true, outputs: [] },
  ]);
});

test('a stage with items takes no slot and is not tried again; its items have the VM and the retry', () => {
  const plan = planOf('a b:3>a', { carry: true });
  const each = {
    list: { kind: 'stage-output', stage: 'a', path: [] },
    maxParallel: 2,
    failFast: true,
    allowFailures: 1,
  } as const;
  const stages = plan.stages.map((stage) =>
    stage.id === 'b' ? { ...stage, each, input: { kind: 'none' } as const } : stage,
  );
  const machine = machinePlanOf({ ...plan, stages });
  expect(machine.stages[1]).toMatchObject({
    scope: null,
    retry: { maxAttempts: 1 },
    takes: [{ stage: 'a', output: true }],
    each: { scope: 'b', retry: { maxAttempts: 3 }, maxParallel: 2, failFast: true, allowFailures: 1 },
  });
  expect(machine.scopes.map(({ id }) => id)).toEqual(['a']);
  expect(machineFromWire(JSON.parse(JSON.stringify(machineToWire(machine))) as typeof machine)).toEqual(machine);
});
