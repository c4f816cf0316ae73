/** Parts whose failure is tolerated as a whole. */
import { describe, expect, test } from 'vitest';
import { machineOf } from '../../test/machine/plan-of.ts';
import { World } from '../../test/machine/world.ts';
import type { MachinePlan } from './machine-plan.ts';

/** `p` ends the part with the stages in `within`; `parts` lists the stages of each end. */
function withParts(plan: MachinePlan, parts: Readonly<Record<string, string>>): MachinePlan {
  return {
    ...plan,
    stages: plan.stages.map((stage) => {
      const covers = parts[stage.id]?.split(' ');
      return covers === undefined ? stage : { ...stage, covers, continueOnError: true };
    }),
  };
}

const PART = withParts(machineOf('a b c>a,b p>c d>p e>p!', { bare: 'p' }), { p: 'a b c' });

describe('a part whose failure is tolerated', () => {
  test('fails once all of it has ended; the run continues and succeeds', () => {
    const world = new World(PART);
    world.answer('a', 'fail');
    expect(world.phases).toEqual({ a: 'failed', b: 'running', c: 'skipped', p: 'waiting', d: 'waiting', e: 'waiting' });
    world.answer('b');
    expect(world.phases).toMatchObject({ p: 'failed', d: 'running', e: 'running' });
    expect(world.events.at(-1)?.body).toEqual({
      type: 'stage-failed',
      stage: 'p',
      execKey: 'p/0/1',
      failure: { code: 'part/failed', message: 'stage a of the part failed', stderrTail: '' },
    });
    world.answer('d').answer('e');
    expect(world.outcome).toMatchObject({ state: 'succeeded', failedStage: null, failure: null, tolerated: ['p'] });
  });

  test('returns its output if no stage of it fails', () => {
    const world = new World(PART);
    world.answer('a').answer('b').answer('c').answer('p').answer('d');
    expect(world.phases).toMatchObject({ p: 'succeeded', e: 'skipped' });
    expect(world.outcome).toMatchObject({ state: 'succeeded' });
    expect(world.outcome).not.toHaveProperty('tolerated');
  });

  test('names the first of several that failed', () => {
    const world = new World(PART);
    world.answer('b', 'fail').answer('a', 'fail');
    expect(world.events.at(-1)?.body).toMatchObject({
      failure: { message: 'stage a of the part failed, and 1 more' },
    });
  });

  test('hides no failure outside of it', () => {
    const world = new World(withParts(machineOf('a p>a x', { bare: 'p' }), { p: 'a' }));
    world.answer('a', 'fail').answer('x', 'fail');
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'x', tolerated: ['p'] });
  });

  test('is skipped if a stage before it failed', () => {
    const world = new World(withParts(machineOf('x a>x p>a d>p', { bare: 'p' }), { p: 'a' }));
    world.answer('x', 'fail');
    expect(world.phases).toEqual({ x: 'failed', a: 'skipped', p: 'skipped', d: 'skipped' });
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'x' });
  });

  test('is cancelled with its run', () => {
    const world = new World(PART);
    world.answer('a', 'fail').send({ type: 'cancel-requested' });
    world.answer('b', 'cancelled').answer('release');
    expect(world.phases).toMatchObject({ b: 'cancelled', c: 'skipped', p: 'skipped', d: 'skipped' });
    expect(world.outcome?.state).toBe('cancelled');
  });

  test('waits for what runs after a failure within it, and fails with that as well', () => {
    const plan = withParts(machineOf('a b>a! p>a,b~ d>p', { bare: 'p', tolerate: 'a' }), { p: 'a b' });
    const world = new World(plan);
    world.answer('a', 'fail');
    expect(world.phases).toMatchObject({ b: 'running', p: 'waiting' });
    world.answer('b', 'fail');
    expect(world.phases).toMatchObject({ p: 'failed', d: 'running' });
    const other = new World(plan);
    other.answer('a', 'fail').answer('b');
    expect(other.phases).toMatchObject({ p: 'running', d: 'waiting' });
  });

  test('covers a VM of its own that is lost for good, with a stage in it that is tolerated too', () => {
    const plan = withParts(machineOf('a b>a p>b d>p', { bare: 'p', shared: 'a b', tolerate: 'a' }), { p: 'a b' });
    const world = new World(plan);
    world.answer('vm', 'acquire-broken').answer('release');
    expect(world.phases).toMatchObject({ a: 'failed', b: 'skipped', p: 'failed', d: 'running' });
    world.answer('d');
    expect(world.outcome).toMatchObject({ state: 'succeeded', tolerated: ['a', 'p'] });
  });

  test('within another part: only the inner part fails', () => {
    const plan = withParts(machineOf('a q>a b>q p>b d>p', { bare: 'p q' }), { q: 'a', p: 'a q b' });
    const world = new World(plan);
    world.answer('a', 'fail');
    expect(world.phases).toMatchObject({ q: 'failed', b: 'running' });
    world.answer('b').answer('p').answer('d');
    expect(world.outcome).toMatchObject({ state: 'succeeded', tolerated: ['q'] });
  });

  test('within another part: does not hide the failure of the outer part', () => {
    const plan = withParts(machineOf('a q>a b>q p>b d>p', { bare: 'p q' }), { q: 'a', p: 'a q b' });
    const world = new World(plan);
    world.answer('a', 'fail').answer('b', 'fail');
    expect(world.events.at(-1)?.body).toMatchObject({ failure: { message: 'stage b of the part failed' } });
    world.answer('d');
    expect(world.outcome).toMatchObject({ state: 'succeeded', tolerated: ['q', 'p'] });
  });

  test('in a loop: each visit has its own failure', () => {
    const loop = { end: 'L', stages: 'a p', maxVisits: 2, onLimit: 'pass' } as const;
    const world = new World(withParts(machineOf('a p>a L>p,a~', { bare: 'p', loop }), { p: 'a' }));
    world.answer('a', 'fail').answer('L', 'not');
    world.answer('a', 'fail').answer('L', 'not');
    const failures = world.events.filter(({ body }) => body.type === 'stage-failed' && body.stage === 'p');
    expect(failures.map(({ id }) => id)).toEqual([...new Set(failures.map(({ id }) => id))]);
    expect(failures).toHaveLength(2);
  });
});
