import { expect, test } from 'vitest';
import { machineOf } from '../../test/machine/plan-of.ts';
import { World } from '../../test/machine/world.ts';
import { checkExpressions } from '../language/expression/check.ts';
import { compileText } from '../language/load.ts';
import { machineFromWire, machinePlanOf, machineToWire, type MachinePlan } from './machine-plan.ts';

/** `a`, then a wait until the time in its output, then `c`. */
function planOfWait(more = ''): MachinePlan {
  const text = `kind: workflow
name: x
workflow:
  output_step: c
  steps:
    - { name: a, run: { program: "true" } }
    - { name: b, wait: { until: stages.a.output }${more} }
    - { name: c, depends_on: [b], run: { program: "true" }, sandbox: {} }
`;
  const { plan, diagnostics } = compileText(text, 'x.yaml', { baseDir: '/', checkExpression: checkExpressions });
  expect(diagnostics).toEqual([]);
  const machine = machinePlanOf(plan!);
  expect(machineFromWire(JSON.parse(JSON.stringify(machineToWire(machine))) as never)).toEqual(machine);
  return machine;
}

test('the time is first found in the outputs, and then waited for', () => {
  const world = new World(planOfWait());
  world.answer('a');
  const [found] = world.pending.filter(({ type }) => type === 'find-time');
  expect(found).toMatchObject({ stageId: 'b', attempt: 1, upstream: { a: { output: { sizeBytes: 1 } } } });
  expect(world.phases['b']).toBe('sleeping');
  world.answer('b');
  expect(world.pending).toContainEqual({ type: 'wait', stageId: 'b', execKey: 'b/0/1', attempt: 1, untilMs: 1 });
  world.answer('b');
  expect(world.phases).toMatchObject({ b: 'succeeded', c: 'running' });
  expect(world.complaints).toEqual([]);
});

test('a wait whose time cannot be found fails, and stages that wait for it are skipped', () => {
  const world = new World(planOfWait());
  world.answer('a').answer('b', 'fail');
  expect(world.phases).toMatchObject({ b: 'failed', c: 'skipped' });

  expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'b', failure: { code: 'stage/wait-time' } });
  expect(world.complaints).toEqual([]);
});

test('the failure of a wait may be tolerated', () => {
  const world = new World(planOfWait(', continue_on_error: true'));
  world.answer('a').answer('b', 'fail');
  expect(world.phases).toMatchObject({ b: 'failed', c: 'running' });
  world.answer('c');

  expect(world.outcome).toMatchObject({ state: 'succeeded', tolerated: ['b'] });
});

test('a time that is found after a cancel is not waited for', () => {
  const world = new World(planOfWait());
  world.answer('a').send({ type: 'cancel-requested' });
  expect(world.phases['b']).toBe('cancelled');
  world.send({ type: 'time-found', stageId: 'b', attempt: 1, outcome: 'found', untilMs: 9 });
  expect(world.pending.filter(({ type }) => type === 'wait')).toEqual([]);

  expect(world.outcome?.state).toBe('cancelled');
  expect(world.complaints).toEqual([]);
});

test('a wait whose plan has its time does not search for one', () => {
  const world = new World({
    ...machineOf('a', { wait: 'a' }),
    stages: machineOf('a', { wait: 'a' }).stages.map((stage) => ({ ...stage, wait: { forMs: 1, untilMs: null } })),
  });
  expect(world.pending).toEqual([{ type: 'wait', stageId: 'a', execKey: 'a/0/1', attempt: 1 }]);
});
