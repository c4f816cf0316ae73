import { describe, expect, test } from 'vitest';
import { machineOf } from '../../test/machine/plan-of.ts';
import { World } from '../../test/machine/world.ts';
import { start } from './machine.ts';

describe('edges', () => {
  test('on a failure: the stage starts when the other failed, and the run still fails', () => {
    const world = new World(machineOf('a b>a! c'));
    world.answer('a', 'fail');
    expect(world.running).toEqual(['c', 'b']);
    world.answer('b').answer('c');
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'a' });
  });

  test('on a failure that does not occur: the stage is skipped, with stages that wait for it, and the run succeeds', () => {
    const world = new World(machineOf('a b>a! c>b d>b~,a'));
    world.answer('a');
    expect(world.phases).toEqual({ a: 'succeeded', b: 'skipped', c: 'skipped', d: 'running' });
    expect(world.events.map(({ body }) => body.type === 'stage-skipped' && body.reason)).toEqual([
      'stage "a" did not fail',
      'stage "b" was skipped',
    ]);
    world.answer('d');
    expect(world.outcome?.state).toBe('succeeded');
  });

  test.each([
    ['succeeded', 'ok'],
    ['failed', 'fail'],
    ['passed', 'pass'],
    ['failed', 'broken'],
  ] as const)('on the end of a stage that %s', (phase, ending) => {
    const world = new World(machineOf('a b>a~'));
    world.answer('a', ending);
    if (ending === 'broken') world.answer('release');
    expect(world.phases).toEqual({ a: phase, b: 'running' });
  });

  test('on the end of a stage that was skipped', () => {
    const world = new World(machineOf('a b>a c>b~'));
    world.answer('a', 'fail');
    expect(world.phases).toEqual({ a: 'failed', b: 'skipped', c: 'running' });
  });

  test('a stage with several starts when the last of them holds', () => {
    const world = new World(machineOf('a b c>a,b~'));
    world.answer('b', 'fail');
    expect(world.running).toEqual(['a']);
    world.answer('a');
    expect(world.running).toEqual(['c']);
  });

  test('a cancel starts no stage that waits for the end of a cancelled stage', () => {
    const world = new World(machineOf('a b>a~ c>a!'));
    world.send({ type: 'cancel-requested' });
    world.answer('a', 'cancelled').answer('release');
    expect(world.phases).toEqual({ a: 'cancelled', b: 'skipped', c: 'skipped' });
    expect(world.outcome?.state).toBe('cancelled');
  });

  test('a cancel after the last result does not change a run in which a failure did not occur', () => {
    const world = new World(machineOf('a b>a!', { shared: 'a b' }));
    world.answer('vm').answer('a');
    world.send({ type: 'cancel-requested' });
    world.answer('release');
    expect(world.outcome?.state).toBe('succeeded');
  });
});

describe('edges from a scope that starts again', () => {
  /** `a` has succeeded in the VM of `a b` when that is lost under `b`; the others have their own. */
  const lost = (text: string): World => {
    const world = new World(machineOf(text, { shared: 'a b' }));
    return world.answer('vm').answer('a').answer('b', 'lost').answer('release');
  };

  test('on the end: a stage that has started keeps its result, and a stage that waits for more edges waits again', () => {
    const world = new World(machineOf('a b x>a~ y>a~,b~', { shared: 'a b' }));
    world.answer('vm').answer('a').answer('b', 'lost').answer('x').answer('release');
    expect(world.phases).toEqual({ a: 'ready', b: 'ready', x: 'succeeded', y: 'waiting' });
    world.answer('vm').answer('b');
    expect(world.phases['y']).toBe('waiting');
    world.answer('a', 'fail');
    expect(world.running).toEqual(['y']);
    expect(world.log.filter((line) => line.startsWith('run x'))).toHaveLength(1);
    expect(world.complaints).toEqual([]);
  });

  test('on a failure: a stage that was skipped as not needed runs when the second time fails', () => {
    const world = lost('a b h>a!');
    expect(world.phases['h']).toBe('waiting');
    expect(world.events.map(({ id }) => id)).toEqual(['stage/h/skipped', 'run/scope-restarted/_shared/0']);
    world.answer('vm').answer('a', 'fail');
    expect(world.running).toEqual(['b', 'h']);
    world.answer('b').answer('h').answer('release');
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'a' });
    expect(world.complaints).toEqual([]);
  });

  test('on a failure that does not occur the second time either: it is skipped again, under another id', () => {
    const world = lost('a b h>a! i>h');
    world.answer('vm').answer('a').answer('b').answer('release');
    expect(world.outcome?.state).toBe('succeeded');
    expect(world.events.flatMap(({ id }) => (id.endsWith('skipped') || id.includes('skipped/') ? [id] : []))).toEqual([
      'stage/h/skipped',
      'stage/i/skipped',
      'stage/h/skipped/2',
      'stage/i/skipped/2',
    ]);
  });

  test('on a failure that occurred: the started stage keeps its result, since failed stages do not run again', () => {
    const world = new World(machineOf('a b h>a!', { shared: 'a b' }));
    world.answer('vm').answer('a', 'fail').answer('h').answer('b', 'lost').answer('release');
    expect(world.phases).toEqual({ a: 'failed', b: 'ready', h: 'succeeded' });
  });

  test('a released shared VM does not come back for a stage that was not needed', () => {
    const world = new World(machineOf('a b x h>a!,x', { shared: 'a b' }));
    const shared = { ...world.plan, scopes: [world.plan.scopes[0]!, { id: 'other', stages: ['x', 'h'] }] };
    const own = new World({
      ...shared,
      stages: shared.stages.map((stage) => (['x', 'h'].includes(stage.id) ? { ...stage, scope: 'other' } : stage)),
    });
    own.answer('vm').answer('vm').answer('x').answer('a').answer('release');
    expect(own.phases['h']).toBe('skipped');
    own.answer('b', 'lost').answer('release').answer('vm').answer('a', 'fail').answer('b').answer('release');
    expect(own.phases['h']).toBe('skipped');
    expect(own.outcome?.state).toBe('failed');
    expect(own.complaints).toEqual([]);
  });
});

describe('a stage without a scope', () => {
  test('takes no VM and no slot', () => {
    const world = new World(machineOf('a b c', { bare: 'b c', maxParallel: 1 }));
    expect(world.log).toEqual(['run b/0/1', 'run c/0/1', 'run a/0/1 in a#0']);
  });

  test('asks, and continues with the answer', () => {
    const world = new World(machineOf('a b>a c>b', { ask: 'b', maxParallel: 1, carry: true }));
    world.answer('a');
    expect(world.phases).toEqual({ a: 'succeeded', b: 'asking', c: 'waiting' });
    expect(world.state.running).toBe(0);
    world.answer('b').answer('c');
    expect(world.log).toEqual(['run a/0/1 in a#0', 'ask b/0/1', 'run c/0/1 in c#0', 'finish succeeded']);
  });

  test('fails with the answer no, and asks again if the author retries', () => {
    const world = new World(machineOf('a:2 b>a!', { ask: 'a' }));
    world.answer('a', 'fail');
    expect(world.log).toEqual(['ask a/0/1', 'ask a/0/2']);
    world.answer('a', 'fail');
    expect(world.running).toEqual(['b']);
    world.answer('b');
    expect(world.outcome).toMatchObject({ state: 'failed', failure: { code: 'stage/rejected' } });
  });

  test('records how each question ended', () => {
    const told = ({ events }: World): unknown => events.map(({ id, body }) => [id, 'outcome' in body && body.outcome]);
    const world = new World(machineOf('a:2 b', { ask: 'a b' }));
    world.answer('a', 'fail').answer('a');
    world.send({ type: 'cancel-requested' });
    expect(told(world)).toEqual([
      ['stage/a/0/1/answered', 'failed'],
      ['stage/a/0/1/retrying', false],
      ['stage/a/0/2/answered', 'succeeded'],
      ['stage/b/0/1/answered', 'cancelled'],
    ]);
  });

  test('withdraws its question when the run is cancelled', () => {
    const world = new World(machineOf('a', { ask: 'a' }));
    world.send({ type: 'cancel-requested' });
    expect(world.log).toEqual(['ask a/0/1', 'withdraw a/0/1', 'finish cancelled']);
    expect(world.complaints).toEqual([]);
  });

  test('an answer to an attempt that no longer asks changes nothing', () => {
    const world = new World(machineOf('a:2', { ask: 'a' }));
    world.answer('a', 'fail');
    world.send({
      type: 'answered',
      stageId: 'a',
      attempt: 1,
      answer: { outcome: 'succeeded', outputs: { output: null, outputs: {} } },
    });
    expect(world.phases).toEqual({ a: 'asking' });
  });

  test('fails if it is lost while it runs, because there is no VM to replace', () => {
    const world = new World(machineOf('a', { bare: 'a' }));
    world.answer('a', 'lost');
    expect(world.outcome).toMatchObject({ state: 'failed', failure: { code: 'vm/lost' } });
  });
});

test('stages that wait for the success of a passed stage start, without data of it', () => {
  const world = new World(machineOf('a b>a c>a!', { carry: true }));
  world.answer('a', 'pass');
  const command = world.pending[0]!;
  expect(command.type === 'run-stage' && command.upstream).toEqual({ a: { output: null, outputs: {} } });
  expect(world.phases).toEqual({ a: 'passed', b: 'running', c: 'skipped' });
  world.answer('b');
  expect(world.outcome?.state).toBe('succeeded');
});

describe('given outputs', () => {
  const given = { a: { output: { sha256: 'f'.repeat(64), sizeBytes: 3, mediaType: 'text/plain' }, outputs: {} } };

  test('stand for their stages, which do not run', () => {
    const world = new World(machineOf('a b>a c>a!', { carry: true }), { given });
    expect(world.log).toEqual(['run b/0/1 in b#0']);
    const command = world.pending[0]!;
    expect(command.type === 'run-stage' && command.upstream).toEqual(given);
    world.answer('b');
    expect(world.phases).toEqual({ a: 'succeeded', b: 'succeeded', c: 'skipped' });
    expect(world.outcome?.state).toBe('succeeded');
  });

  test('given outputs stay if a shared VM is lost, because they were never in it', () => {
    const world = new World(machineOf('a b', { shared: 'a b' }), { given });
    world.answer('vm').answer('b', 'lost').answer('release').answer('vm').answer('b').answer('release');
    expect(world.log.filter((line) => line.startsWith('run'))).toEqual([
      'run b/0/1 in _shared#0',
      'run b/0/2 in _shared#1',
    ]);
    expect(world.outcome?.state).toBe('succeeded');
  });

  test('a given approval after another given stage is not asked again', () => {
    const world = new World(machineOf('a ok>a b>ok', { ask: 'ok', carry: true }), { given: { ...given, ok: given.a } });
    expect(world.log).toEqual(['run b/0/1 in b#0']);
    world.answer('b');
    expect(world.outcome?.state).toBe('succeeded');
  });

  test('a given stage that was passed starts the stages that wait for it', () => {
    const none = { output: null, outputs: {}, passed: true } as const;
    const world = new World(machineOf('a b>a c>a!'), { given: { a: none } });
    expect(world.log).toEqual(['run b/0/1 in b#0']);
    expect(world.phases).toMatchObject({ a: 'passed', c: 'skipped' });
  });

  test('given outputs for all stages end the run at once', () => {
    const world = new World(machineOf('a b', { shared: 'a b' }), { given: { a: given.a, b: given.a } });
    expect(world.log).toEqual(['finish succeeded']);
    expect(world.outcome).toMatchObject({ state: 'succeeded', output: given.a.output });
  });

  test('a given output for a stage that the plan does not have is a bug', () => {
    expect(() => start(machineOf('a'), { given: { z: given.a } })).toThrow(/no stage "z"/);
  });
});
