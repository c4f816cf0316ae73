import { describe, expect, test } from 'vitest';
import { machineOf } from '../../test/machine/plan-of.ts';
import { World } from '../../test/machine/world.ts';
import { machineFromWire, machinePlanOf, machineToWire } from './machine-plan.ts';
import { planOf } from '../../test/machine/plan-of.ts';

test('a stage is decided once the stages before it have succeeded, and takes a slot only when its condition holds', () => {
  const world = new World(machineOf('a b>a c', { when: 'b', maxParallel: 2 }));
  expect(world.log).toEqual(['run a/0/1 in a#0', 'run c/0/1 in c#0']);
  world.answer('a');
  expect(world.log.slice(2)).toEqual(['evaluate b#1']);
  expect(world.phases['b']).toBe('deciding');
  expect(world.state.running).toBe(1);
  world.answer('b');
  expect(world.log.at(-1)).toBe('run b/0/1 in b#0');
  world.answer('b').answer('c');
  expect(world.outcome?.state).toBe('succeeded');
  expect(world.complaints).toEqual([]);
});

test('a stage whose condition does not hold is passed: no VM, no attempt, and dependents start', () => {
  const world = new World(machineOf('a b>a c>b', { when: 'b', carry: true }));
  world.answer('a').answer('b', 'not');
  expect(world.phases['b']).toBe('passed');
  expect(world.events.map(({ id, body }) => [id, body.type])).toEqual([['stage/b/passed', 'stage-passed']]);
  expect(world.log.at(-1)).toBe('run c/0/1 in c#0');
  world.answer('c');
  expect(world.outcome).toMatchObject({ state: 'succeeded', failedStage: null });
});

test('a stage whose condition cannot be decided fails once, whatever its retry', () => {
  const world = new World(machineOf('a b:3>a c>b', { when: 'b' }));
  world.answer('a').answer('b', 'fail');
  expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'b', failure: { code: 'stage/condition' } });
  expect(world.events.map(({ id }) => id)).toEqual(['stage/b/0/1/failed', 'stage/c/skipped']);
});

test('a decision of the condition holds for all attempts', () => {
  const world = new World(machineOf('b:2', { when: 'b' }));
  world.answer('b').answer('b', 'fail').answer('b');
  expect(world.log).toEqual(['evaluate b#1', 'run b/0/1 in b#0', 'run b/0/2 in b#1', 'finish succeeded']);
});

test('an approval is decided before it asks', () => {
  const world = new World(machineOf('b c>b', { when: 'b', ask: 'b' }));
  expect(world.log).toEqual(['evaluate b#1']);
  world.answer('b');
  expect(world.log.at(-1)).toBe('ask b/0/1');
});

test('a cancel ends a decision that is under way, and its late answer starts nothing', () => {
  const world = new World(machineOf('a b', { when: 'b' }));
  world.send({ type: 'cancel-requested' });
  expect(world.phases['b']).toBe('skipped');
  world.answer('b').answer('a', 'cancelled').answer('release');
  expect(world.outcome?.state).toBe('cancelled');
  expect(world.log.some((line) => line.startsWith('run b'))).toBe(false);
  expect(world.complaints).toEqual([]);
});

describe('with a VM that is lost', () => {
  test('a decision that is under way is made again with the new outputs', () => {
    const world = new World(machineOf('a b>a c', { shared: 'a c', when: 'b' }));
    world.answer('vm').answer('a');
    expect(world.phases['b']).toBe('deciding');
    world.answer('c', 'lost').answer('release');
    expect(world.phases['b']).toBe('waiting');
    // This decision read the outputs that are gone.
    world.answer('b', 'not');
    expect(world.phases['b']).toBe('waiting');
    world.answer('vm').answer('a');
    expect(world.log.at(-1)).toBe('evaluate b#2');
    world.answer('b').answer('b').answer('c').answer('release');
    expect(world.outcome?.state).toBe('succeeded');
    expect(world.complaints).toEqual([]);
  });

  test('a stage that was passed is decided again, and nothing runs before the stages that make its files', () => {
    const world = new World(machineOf('a b>a c>b', { shared: 'a b c', when: 'b' }));
    world.answer('vm').answer('a').answer('b', 'not').answer('c', 'lost').answer('release').answer('vm');
    expect(world.phases).toMatchObject({ a: 'running', b: 'waiting', c: 'waiting' });
    const restarted = world.events.find(({ body }) => body.type === 'scope-restarted');
    expect(restarted?.body).toMatchObject({ stages: ['a', 'b', 'c'] });
    world.answer('a').answer('b', 'not').answer('c').answer('release');
    expect(world.events.map(({ id }) => id).filter((id) => id.includes('passed'))).toEqual([
      'stage/b/passed',
      'stage/b/passed/2',
    ]);
    expect(world.outcome?.state).toBe('succeeded');
    expect(world.complaints).toEqual([]);
  });

  test('a VM whose last stage is passed is released', () => {
    const world = new World(machineOf('a b>a', { shared: 'a b', when: 'b' }));
    world.answer('vm').answer('a').answer('b', 'not').answer('release');
    expect(world.outcome?.state).toBe('succeeded');
  });
});

test('a merged result has no part of a passed stage', () => {
  const world = new World(machineOf('a b', { merge: 'a b', when: 'b' }));
  world.answer('a').answer('b', 'not');
  expect(world.finish?.merge?.map(({ name }) => name)).toEqual(['a']);
});

test('the output that replaces that of a passed stage is carried on, and is the result', () => {
  const ref = { sha256: 'e'.repeat(64), sizeBytes: 1, mediaType: 'text/plain' };
  const world = new World(machineOf('b', { when: 'b' }));
  world.pending.pop();
  world.send({ type: 'condition-evaluated', stageId: 'b', evaluation: 1, outcome: 'does-not-hold', output: ref });
  expect(world.outcome).toMatchObject({ state: 'succeeded', output: ref });
});

test('the workflow gets a condition as the list of stages that it reads', () => {
  const plan = machinePlanOf(planOf('a b>a c>b', { when: 'b c' }));
  expect(plan.stages.map(({ condition }) => condition)).toEqual([null, ['a'], ['b']]);
  const wire = machineToWire(plan);
  expect(wire.stages.map((stage) => 'condition' in stage)).toEqual([false, true, true]);
  expect(machineFromWire(JSON.parse(JSON.stringify(wire)) as typeof wire)).toEqual(plan);
});

test('a passed stage in a chain hands on what a stage before it had, also after a tolerated failure', () => {
  const world = new World(machineOf('a b>a c>b', { chain: true, when: 'c', tolerate: 'b' }));
  world.answer('a').answer('b', 'fail');
  const asked = world.pending.find(({ type }) => type === 'evaluate');
  expect(asked).toMatchObject({ upstream: { b: { state: 'failed', attempt: 1, output: expect.anything() } } });
});
