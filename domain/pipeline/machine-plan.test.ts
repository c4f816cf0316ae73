import { expect, test } from 'vitest';
import { machineOf, planOf } from '../../test/machine/plan-of.ts';
import { machineFromWire, machinePlanOf, machineToWire, takenBy } from './machine-plan.ts';

test('comes back from its wire, whatever it leaves out', () => {
  for (const machine of [
    machineOf('a'),
    machineOf('a:3 b>a,a c>b!,a~', { shared: 'a b', backoffMs: 5, carry: true }),
    machineOf('a b>a c', { ask: 'b', bare: 'c', merge: 'a b' }),
  ])
    expect(machineFromWire(JSON.parse(JSON.stringify(machineToWire(machine))) as typeof machine)).toEqual(machine);
});

test('says little of a stage that has the defaults', () => {
  const plan = planOf('a b>a', { carry: true });
  const machine = machinePlanOf({ ...plan, stages: plan.stages.map((stage) => ({ ...stage, timeoutMs: 3_600_000 })) });
  expect(machineToWire(machine).stages).toEqual([{ id: 'a' }, { id: 'b', after: ['a'], takes: [{ stage: 'a' }] }]);
});

test('holds nothing of what a stage runs', () => {
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

test('a stage takes of each source once what standard input, input and inputs take together', () => {
  const [stage] = planOf('a').stages;
  expect(
    takenBy({
      work: { ...stage!.work, stdin: { kind: 'stage-output', stage: 'x' } },
      input: { kind: 'merge', stages: ['x', 'y'] },
      inputs: [
        { fromStage: 'y', output: 'one', guestPath: '/a' },
        { fromStage: 'y', output: 'one', guestPath: '/b' },
        { fromStage: 'z', output: 'two', guestPath: '/c' },
      ],
    }),
  ).toEqual([
    { stage: 'y', output: true, outputs: ['one'] },
    { stage: 'z', output: false, outputs: ['two'] },
    { stage: 'x', output: true, outputs: [] },
  ]);
});
