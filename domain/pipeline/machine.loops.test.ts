import { describe, expect, test } from 'vitest';
import { machineOf } from '../../test/machine/plan-of.ts';
import { World } from '../../test/machine/world.ts';
import type { OnLimit } from '../plan/plan.ts';

function loopWorld(text: string, onLimit: OnLimit = 'fail', maxVisits = 3): World {
  const loop = { end: 'L', stages: 'a b', maxVisits, onLimit };
  return new World(machineOf(text, { chain: true, loop }));
}

/** One visit, and the decision of the loop's condition after it. */
function visit(world: World, until: 'ok' | 'not'): World {
  return world.answer('a').answer('b').answer('L', until);
}

describe('a loop', () => {
  test('runs its stages again until its condition holds; stages after it wait for it', () => {
    const world = loopWorld('s a>s b>a L>b z>L').answer('s');
    visit(world, 'not');
    visit(world, 'not');
    expect(world.phases['z']).toBe('waiting');
    visit(world, 'ok').answer('L').answer('z');
    expect(world.outcome).toMatchObject({ state: 'succeeded' });
    expect(world.log.filter((line) => /^run [ab]\//.test(line))).toEqual([
      'run a/0/1 in a#0',
      'run b/0/1 in b#0',
      'run a/0/2 in a#1',
      'run b/0/2 in b#1',
      'run a/0/3 in a#2',
      'run b/0/3 in b#2',
    ]);
    expect(world.complaints).toEqual([]);
    expect(world.events.flatMap(({ body }) => (body.type === 'loop-visited' ? [body] : []))).toEqual([
      { type: 'loop-visited', stage: 'L', visit: 2, stages: ['a', 'b'] },
      { type: 'loop-visited', stage: 'L', visit: 3, stages: ['a', 'b'] },
    ]);
  });

  test('hands its first stage the output of the previous visit, and nothing in the first visit', () => {
    const world = loopWorld('s a>s b>a L>b').answer('s');
    const found = (): unknown => {
      const command = world.pending.find((each) => each.type === 'run-stage' && each.stageId === 'a');
      return command?.type === 'run-stage' ? command.upstream['L'] : null;
    };
    expect(found()).toEqual({ output: null, outputs: {} });
    visit(world, 'not');
    expect(found()).toMatchObject({ output: { sha256: expect.stringMatching(/^b\/0\/10/) } });
  });

  test('fails at its limit with loop/limit, and stages after it are skipped', () => {
    const world = loopWorld('a b>a L>b z>L', 'fail', 2);
    visit(world, 'not');
    visit(world, 'not');
    expect(world.outcome).toMatchObject({
      state: 'failed',
      failedStage: 'L',
      failure: { code: 'loop/limit', message: 'the condition (`until`) of loop L did not hold after 2 visits' },
    });
    expect(world.phases).toMatchObject({ L: 'failed', z: 'skipped' });
  });

  test('continues at its limit with `on_limit: pass`', () => {
    const world = loopWorld('a b>a L>b z>L', 'pass', 1);
    visit(world, 'not').answer('L').answer('z');
    expect(world.outcome).toMatchObject({ state: 'succeeded' });
  });

  test('counts the retries of each visit separately', () => {
    const world = loopWorld('a:2 b>a L>b').answer('a', 'fail');
    visit(world, 'not').answer('a', 'fail');
    visit(world, 'ok').answer('L');
    expect(world.outcome).toMatchObject({ state: 'succeeded' });
    expect(world.log.filter((line) => line.startsWith('run a/'))).toHaveLength(4);
  });

  test('ends when a stage of any visit fails, and then has no output', () => {
    const world = loopWorld('a b>a L>b');
    visit(world, 'not').answer('a', 'fail');
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'a', output: null });
    expect(world.phases).toMatchObject({ b: 'skipped', L: 'skipped' });
  });

  test('fails if its condition cannot be decided', () => {
    const world = loopWorld('a b>a L>b');
    world.answer('a').answer('b').answer('L', 'fail');
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'L', failure: { code: 'stage/condition' } });
  });

  test('does not continue after a cancel', () => {
    const world = loopWorld('a b>a L>b z>L');
    visit(world, 'not').send({ type: 'cancel-requested' }).answer('a', 'cancelled').answer('release');
    expect(world.outcome).toMatchObject({ state: 'cancelled' });
    expect(world.complaints).toEqual([]);
  });

  test('lost VMs of one visit do not count in the next', () => {
    const world = loopWorld('a b>a L>b', 'fail', 3);
    for (let each = 0; each < 3; each += 1) world.answer('a', 'lost').answer('release');
    visit(world, 'not');
    for (let each = 0; each < 3; each += 1) world.answer('a', 'lost').answer('release');
    visit(world, 'ok').answer('L');
    expect(world.outcome).toMatchObject({ state: 'succeeded' });
  });

  test('that waits for a failure makes all its visits after that failure, and none without it', () => {
    const failed = loopWorld('s a>s! b>a L>b').answer('s', 'fail');
    visit(failed, 'not');
    visit(failed, 'ok').answer('L');
    expect(failed.outcome).toMatchObject({ state: 'failed', failedStage: 's' });
    expect(failed.phases).toMatchObject({ a: 'succeeded', b: 'succeeded', L: 'succeeded' });
    expect(failed.log.filter((line) => line.startsWith('run a/'))).toHaveLength(2);
    expect(failed.complaints).toEqual([]);

    const fine = loopWorld('s a>s! b>a L>b').answer('s');
    expect(fine.outcome).toMatchObject({ state: 'succeeded' });
    expect(fine.phases).toMatchObject({ a: 'skipped', b: 'skipped', L: 'skipped' });
  });
});
