/** A shared scope that is saved after each step: which stages run again after the loss of its VM. */
import { describe, expect, test } from 'vitest';
import { LOST_VM_ATTEMPTS } from '../errors/code-info.ts';
import { machineOf } from '../../test/machine/plan-of.ts';
import { World } from '../../test/machine/world.ts';

const SIX = 'a b>a c>b d>c e>d f>e';
const ALL = 'a b c d e f';

function sixSteps(): World {
  const world = new World(machineOf(SIX, { shared: ALL, saved: true })).answer('vm');
  for (const stage of ['a', 'b', 'c', 'd']) world.answer(stage);
  return world;
}

describe('a scope that is saved after each step', () => {
  test('repeats only the fifth of six steps, in which its VM was lost', () => {
    const world = sixSteps().answer('e', 'lost').answer('release');
    expect(world.running).toEqual([]);
    world.answer('vm').answer('e').answer('f').answer('release');
    expect(world.complaints).toEqual([]);
    expect(world.outcome?.state).toBe('succeeded');
    expect(world.log.slice(5)).toEqual([
      'run e/0/1 in _shared#0',
      'release _shared#0, resumes',
      'acquire _shared#1, resumes',
      'run e/0/2 in _shared#1',
      'run f/0/1 in _shared#1',
      'release _shared#1',
      'finish succeeded',
    ]);
    expect(world.events.map(({ id, body }) => [id, body])).toEqual([
      [
        'run/scope-restarted/_shared/0',
        {
          type: 'scope-restarted',
          scope: '_shared',
          reason: 'vm/lost: the keeper died',
          stages: ['e'],
          attempts: [1],
          kept: ['a', 'b', 'c', 'd'],
        },
      ],
    ]);
  });

  test('repeats the steps after its checkpoint, if the last step was not saved', () => {
    const world = sixSteps();
    world.checkpointOf = ({ length }) => length - 1;
    world.answer('e', 'lost').answer('release').answer('vm').answer('d').answer('e').answer('f').answer('release');
    expect(world.complaints).toEqual([]);
    expect(world.log.slice(8)).toEqual([
      'run d/0/2 in _shared#1',
      'run e/0/2 in _shared#1',
      'run f/0/1 in _shared#1',
      'release _shared#1',
      'finish succeeded',
    ]);
  });

  test('repeats all steps without a checkpoint', () => {
    const world = sixSteps();
    world.checkpointOf = () => 0;
    world.answer('e', 'lost').answer('release').answer('vm');
    for (const stage of ALL.split(' ')) world.answer(stage);
    world.answer('release');
    expect(world.complaints).toEqual([]);
    expect(world.outcome?.state).toBe('succeeded');
    expect(world.log.slice(8, 10)).toEqual(['run a/0/2 in _shared#1', 'run b/0/2 in _shared#1']);
    expect(world.events[0]!.body).toMatchObject({ stages: ['a', 'b', 'c', 'd', 'e'], attempts: [1, 1, 1, 1, 1] });
    expect(world.events[0]!.body).not.toHaveProperty('kept');
  });

  test('keeps the steps of a checkpoint over a second loss', () => {
    const world = sixSteps().answer('e', 'lost').answer('release').answer('vm').answer('e');
    world.answer('f', 'lost').answer('release').answer('vm').answer('f').answer('release');
    expect(world.complaints).toEqual([]);
    expect(world.outcome?.state).toBe('succeeded');
    expect(world.log.filter((line) => line.startsWith('run')).slice(4)).toEqual([
      'run e/0/1 in _shared#0',
      'run e/0/2 in _shared#1',
      'run f/0/1 in _shared#1',
      'run f/0/2 in _shared#2',
    ]);
  });

  test('repeats all steps if no VM with the checkpoint starts, and another VM follows', () => {
    const world = sixSteps().answer('e', 'lost').answer('release').answer('vm', 'acquire-lost').answer('release');
    world.checkpointOf = () => 0;
    world.answer('vm').answer('a');
    expect(world.running).toEqual(['b']);
    expect(world.log).toContain('acquire _shared#2, resumes');
    expect(world.complaints).toEqual([]);
  });

  test('fails with the interrupted step if no other VM can start', () => {
    const world = sixSteps().answer('e', 'lost').answer('release').answer('vm', 'acquire-broken').answer('release');
    expect(world.outcome).toMatchObject({ state: 'failed', failure: { code: 'host/not-ready' } });
    expect(world.complaints).toEqual([]);
  });

  test('fails after the last loss', () => {
    const world = sixSteps();
    for (let lost = 0; lost < LOST_VM_ATTEMPTS; lost += 1) world.answer('e', 'lost').answer('release').answer('vm');
    world.answer('e', 'lost').answer('release');
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'e', failure: { code: 'vm/lost' } });
    expect(world.log.at(-2)).toBe(`release _shared#${LOST_VM_ATTEMPTS}`);
  });

  test('decides a passed step again only if a step before it runs again', () => {
    const plan = machineOf('a x>a b>x y>b c>y', { shared: 'a x b y c', when: 'x y', saved: true });
    const world = new World(plan).answer('vm').answer('a').answer('x', 'not').answer('b').answer('y', 'not');
    world.checkpointOf = ({ length }) => length - 1;
    world.answer('c', 'lost').answer('release').answer('vm');
    expect(world.phases).toEqual({ a: 'succeeded', x: 'passed', b: 'running', y: 'waiting', c: 'waiting' });
    world.answer('b').answer('y', 'not').answer('c').answer('release');
    expect(world.outcome?.state).toBe('succeeded');
    expect(world.complaints).toEqual([]);
    expect(world.events.at(-2)!.body).toMatchObject({ stages: ['b', 'c', 'y'], kept: ['a'] });
  });

  test('keeps a passed step whose step before it is held', () => {
    const plan = machineOf('a x>a b>x', { shared: 'a x b', when: 'x', saved: true });
    const world = new World(plan).answer('vm').answer('a').answer('x', 'not').answer('b', 'lost').answer('release');
    world.answer('vm');
    expect(world.running).toEqual(['b']);
    expect(world.log.filter((line) => line.startsWith('evaluate'))).toEqual(['evaluate x#1']);
  });

  test('starts the repeated steps only once its other steps have ended', () => {
    const world = new World(machineOf('a b>a c>a d>b,c', { shared: 'a b c d', saved: true }));
    world.answer('vm').answer('a').answer('b', 'lost');
    expect(world.running).toEqual(['c']);
    world.answer('c').answer('release').answer('vm');
    expect(world.running).toEqual(['b']);
    world.answer('b').answer('d').answer('release');
    expect(world.outcome?.state).toBe('succeeded');
    expect(world.complaints).toEqual([]);
  });

  test('resumes nothing after a cancel', () => {
    const world = sixSteps().answer('e', 'lost').answer('release').send({ type: 'cancel-requested' });
    world.answer('vm', 'acquire-lost').answer('release');
    expect(world.outcome?.state).toBe('cancelled');
    expect(world.complaints).toEqual([]);
    expect(world.log.at(-2)).toBe('release _shared#1');
  });

  test('repeats all steps if the answer names attempts that are not the last ones', () => {
    const world = sixSteps().answer('e', 'lost').answer('release');
    const acquired = { type: 'vm-acquired', scope: '_shared', generation: 1, lease: { vmKey: 'x' } } as const;
    world.send({
      ...acquired,
      holds: [
        { stage: 'a', attempt: 9 },
        { stage: 'none', attempt: 0 },
      ],
    });
    expect(world.running).toEqual(['a']);
  });
});

test('a scope with one step left, because the others are mocked, resumes nothing', () => {
  const plan = machineOf('a b>a', { shared: 'a b', saved: true });
  const scopes = plan.scopes.map((scope) => ({ ...scope, stages: ['a'], keepsVm: true as const }));
  const stages = plan.stages.map((stage) => (stage.id === 'b' ? { ...stage, scope: null } : stage));
  const world = new World({ ...plan, scopes, stages }).answer('vm').answer('a', 'lost');
  expect(world.log.at(-1)).toBe('release _shared#0');
});

describe('a scope that is saved after each step, whose first steps are given', () => {
  const DONE = { output: null, outputs: {} };
  const GIVEN = { a: DONE, b: DONE, c: DONE, d: DONE };
  const begin = (checkpointOf: World['checkpointOf'] = ({ length }) => length): World => {
    const world = new World(machineOf(SIX, { shared: ALL, saved: true }), { given: GIVEN });
    world.checkpointOf = checkpointOf;
    return world;
  };

  test('runs the other steps in a VM that begins with the work of the given ones', () => {
    const world = begin().answer('vm').answer('e').answer('f').answer('release');
    expect(world.complaints).toEqual([]);
    expect(world.log).toEqual([
      'acquire _shared#0, resumes',
      'run e/0/1 in _shared#0',
      'run f/0/1 in _shared#0',
      'release _shared#0',
      'finish succeeded',
    ]);
    expect(world.events).toEqual([]);
  });

  test('runs all steps if its first VM holds no work', () => {
    const world = begin(() => 0).answer('vm');
    expect(world.running).toEqual(['a']);
    expect(world.events).toEqual([
      {
        id: 'run/scope-begun-again/_shared/0',
        body: {
          type: 'scope-restarted',
          scope: '_shared',
          reason: 'its VM does not hold the work of the earlier run',
          stages: ['a', 'b', 'c', 'd'],
          attempts: [0, 0, 0, 0],
        },
      },
    ]);
    for (const stage of ALL.split(' ')) world.answer(stage);
    world.answer('release');
    expect(world.outcome?.state).toBe('succeeded');
    expect(world.complaints).toEqual([]);
  });

  test('repeats only the interrupted step if its first VM is lost', () => {
    const world = begin().answer('vm').answer('e', 'lost').answer('release').answer('vm');
    expect(world.running).toEqual(['e']);
    expect(world.events.map(({ id, body }) => [id, body])).toMatchObject([
      ['run/scope-restarted/_shared/0', { stages: ['e'], attempts: [1], kept: ['a', 'b', 'c', 'd'] }],
    ]);
    expect(world.complaints).toEqual([]);
  });

  test('repeats all steps if its next VM holds no work', () => {
    const world = begin().answer('vm').answer('e', 'lost').answer('release');
    world.checkpointOf = () => 0;
    world.answer('vm');
    expect(world.running).toEqual(['a']);
    expect(world.events[0]!.body).toMatchObject({ stages: ['a', 'b', 'c', 'd', 'e'], attempts: [0, 0, 0, 0, 1] });
    expect(world.complaints).toEqual([]);
  });

  test('asks for the work again if its first VM does not start', () => {
    const world = begin().answer('vm', 'acquire-lost').answer('release');
    expect(world.log).toEqual([
      'acquire _shared#0, resumes',
      'release _shared#0, resumes',
      'acquire _shared#1, resumes',
    ]);
  });

  test('decides a passed step again only if the work before it is gone', () => {
    const plan = machineOf('a x>a b>x', { shared: 'a x b', when: 'x', saved: true });
    const given = { a: DONE, x: { ...DONE, passed: true as const } };
    const held = new World(plan, { given }).answer('vm');
    expect(held.phases).toEqual({ a: 'succeeded', x: 'passed', b: 'running' });
    const empty = new World(plan, { given });
    empty.checkpointOf = () => 0;
    empty.answer('vm').answer('a');
    expect(empty.log.at(-1)).toBe('evaluate x#1');
  });

  test('starts a VM without a checkpoint if only a passed step is given', () => {
    const plan = machineOf('x b>x', { shared: 'x b', when: 'x', saved: true });
    const world = new World(plan, { given: { x: { ...DONE, passed: true as const } } });
    expect(world.log).toEqual(['acquire _shared#0']);
  });
});

test('given stages of a scope without checkpoints stay as they are if its VM is lost', () => {
  const given = { a: { output: null, outputs: {} } };
  const world = new World(machineOf('a b>a', { shared: 'a b' }), { given }).answer('vm').answer('b', 'lost');
  world.answer('release').answer('vm');
  expect(world.running).toEqual(['b']);
});
