import { describe, expect, test } from 'vitest';
import { LOST_VM_ATTEMPTS } from '../plan/plan.ts';
import type { StageFailure } from '../run/stage-result.ts';
import { start, transition } from './machine.ts';
import { machineOf } from '../../test/machine/plan-of.ts';
import { resultOf, World } from '../../test/machine/world.ts';

describe('order', () => {
  test('a stage starts when all before it have succeeded', () => {
    const world = new World(machineOf('a b c>a,b'));
    expect(world.running).toEqual(['a', 'b']);
    world.answer('b');
    expect(world.running).toEqual(['a']);
    world.answer('a').answer('c');
    expect(world.log).toEqual(['run a/0/1 in a#0', 'run b/0/1 in b#0', 'run c/0/1 in c#0', 'finish succeeded']);
    expect(world.outcome?.output?.sha256).toMatch(/^c\/0\/1/);
  });

  test('no more than max_parallel run, in plan order', () => {
    const world = new World(machineOf('a b c d', { maxParallel: 2 }));
    expect(world.running).toEqual(['a', 'b']);
    world.answer('b');
    expect(world.running).toEqual(['a', 'c']);
  });

  test("the host's ceiling lowers max_parallel", () => {
    expect(start(machineOf('a b c'), { maxParallel: 1 }).commands).toHaveLength(1);
  });

  test('a stage that waits for its VM does not hold up one that needs none', () => {
    const world = new World(machineOf('a b c', { shared: 'a b', maxParallel: 1 }));
    expect(world.log).toEqual(['acquire _shared#0', 'run c/0/1 in c#0']);
  });

  test('a stage is given the outputs that it takes', () => {
    const world = new World(machineOf('a b>a', { carry: true }));
    world.answer('a');
    const command = world.pending[0]!;
    expect(command.type === 'run-stage' && Object.keys(command.upstream)).toEqual(['a']);
  });
});

describe('failure', () => {
  test('skips what depends on it, nearest reason, and lets the rest go on', () => {
    const world = new World(machineOf('a b>a c>b d'));
    world.answer('a', 'fail');
    expect(world.phases).toEqual({ a: 'failed', b: 'skipped', c: 'skipped', d: 'running' });
    expect(world.events.map(({ id, body }) => [id, body.type === 'stage-skipped' && body.reason])).toEqual([
      ['stage/b/skipped', 'stage "a" failed'],
      ['stage/c/skipped', 'stage "b" was skipped'],
    ]);
    world.answer('d');
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'a', failure: { code: 'stage/exit-nonzero' } });
  });

  test('a failed side stage fails the run, whose output is kept', () => {
    const world = new World(machineOf('a b'));
    world.answer('a', 'fail').answer('b');
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'a' });
    expect(world.outcome?.output).not.toBeNull();
  });

  test("the author's retry is a new exec key in a new VM, after the delay", () => {
    const world = new World(machineOf('a:3', { backoffMs: 500 }));
    world.answer('a', 'fail').answer('timer').answer('a', 'fail').answer('timer').answer('a', 'fail');
    expect(world.log).toEqual([
      'run a/0/1 in a#0',
      'timer retry/a/1 500',
      'run a/0/2 in a#1',
      'timer retry/a/2 500',
      'run a/0/3 in a#2',
      'finish failed',
    ]);
    expect(world.events.map(({ id }) => id)).toEqual(['stage/a/0/1/retrying', 'stage/a/0/2/retrying']);
  });

  test('in a shared scope the retry happens in the same VM', () => {
    const world = new World(machineOf('a:2 b>a', { shared: 'a b' }));
    world.answer('vm').answer('a', 'fail').answer('a').answer('b').answer('release');
    expect(world.log).toEqual([
      'acquire _shared#0',
      'run a/0/1 in _shared#0',
      'run a/0/2 in _shared#0',
      'run b/0/1 in _shared#0',
      'release _shared#0',
      'finish succeeded',
    ]);
  });

  test('a broken world is not retried, and the VM that may be left is released', () => {
    const world = new World(machineOf('a:3'));
    world.answer('a', 'broken').answer('release');
    expect(world.log).toEqual(['run a/0/1 in a#0', 'release a#0', 'finish failed']);
  });

  test('a shared VM that cannot be had fails what waits for it', () => {
    const world = new World(machineOf('a b>a', { shared: 'a b' }));
    world.answer('vm', 'acquire-broken').answer('release');
    expect(world.phases).toEqual({ a: 'failed', b: 'skipped' });
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'a', failure: { code: 'host/not-ready' } });
  });
});

describe('a result that is merged', () => {
  const merged = (text: string): World => new World(machineOf(text, { merge: 'b a' }));

  test('is of its stages, in the order of the plan, whichever ended first', () => {
    const world = merged('a b c');
    world.answer('c').answer('a').answer('b');
    expect(world.finish?.outcome).toMatchObject({ state: 'succeeded', output: null });
    expect(world.finish?.merge?.map(({ name, output }) => [name, output.sha256.slice(0, 5)])).toEqual([
      ['b', 'b/0/1'],
      ['a', 'a/0/1'],
    ]);
  });

  test('is not made of a part of them', () => {
    const world = merged('a b');
    world.answer('a').answer('b', 'fail');
    expect(world.finish).toMatchObject({ outcome: { state: 'failed', failedStage: 'b', output: null }, merge: null });
  });

  test('is kept when a stage beside them fails', () => {
    const world = merged('a b c');
    world.answer('c', 'fail').answer('a').answer('b');
    expect(world.finish).toMatchObject({
      outcome: { state: 'failed', failedStage: 'c' },
      merge: [{ name: 'b' }, { name: 'a' }],
    });
  });

  test('has the outputs of the last attempts where a VM was lost', () => {
    const world = new World(machineOf('a b', { merge: 'a b', shared: 'a b' }));
    world
      .answer('vm')
      .answer('a')
      .answer('b', 'lost')
      .answer('release')
      .answer('vm')
      .answer('a')
      .answer('b')
      .answer('release');
    expect(world.finish?.merge?.map(({ output }) => output.sha256.slice(0, 5))).toEqual(['a/0/2', 'b/0/2']);
  });
});

describe('lost VMs', () => {
  test("are counted apart from the author's attempts", () => {
    const world = new World(machineOf('a:2'));
    for (let lost = 0; lost < LOST_VM_ATTEMPTS; lost += 1) world.answer('a', 'lost').answer('release');
    world.answer('a', 'fail').answer('a');
    expect(world.outcome?.state).toBe('succeeded');
    expect(world.log.filter((line) => line.startsWith('run'))).toHaveLength(LOST_VM_ATTEMPTS + 2);
  });

  test('end after the last attempt, with the code of the last loss', () => {
    const world = new World(machineOf('a'));
    for (let lost = 0; lost <= LOST_VM_ATTEMPTS; lost += 1) world.answer('a', 'lost').answer('release');
    expect(world.outcome).toMatchObject({
      state: 'failed',
      failure: {
        code: 'vm/lost',
        message: `the VM was lost ${LOST_VM_ATTEMPTS + 1} times; the last time: the keeper died`,
      },
    });
  });

  test('restart a whole shared scope once its other stages have ended', () => {
    const world = new World(machineOf('a b>a c>a d>b,c', { shared: 'a b c d' }));
    world.answer('vm').answer('a').answer('b', 'lost');
    expect(world.running).toEqual(['c']);
    world.answer('c', 'lost').answer('release');
    expect(world.events.map(({ id, body }) => [id, body])).toEqual([
      [
        'run/scope-restarted/_shared/0',
        { type: 'scope-restarted', scope: '_shared', reason: 'vm/lost: the keeper died', stages: ['a'] },
      ],
    ]);
    world.answer('vm').answer('a').answer('b').answer('c').answer('d').answer('release');
    expect(world.outcome?.state).toBe('succeeded');
    expect(world.log.slice(4)).toEqual([
      'release _shared#0',
      'acquire _shared#1',
      'run a/0/2 in _shared#1',
      'run b/0/2 in _shared#1',
      'run c/0/2 in _shared#1',
      'run d/0/1 in _shared#1',
      'release _shared#1',
      'finish succeeded',
    ]);
  });

  test('once too often end the scope, also for a stage that could be retried', () => {
    const world = new World(machineOf('a b:3', { shared: 'a b' }));
    for (let lost = 0; lost < LOST_VM_ATTEMPTS; lost += 1)
      world.answer('vm').answer('a', 'lost').answer('b', 'lost').answer('release');
    world.answer('vm').answer('a', 'lost').answer('b', 'fail').answer('release');
    expect(world.phases).toEqual({ a: 'failed', b: 'failed' });
    expect(world.log.filter((line) => line.startsWith('acquire'))).toHaveLength(LOST_VM_ATTEMPTS + 1);
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'a', failure: { code: 'vm/lost' } });
  });

  test('leave results of stages outside of the scope alone, and hold back what has not started', () => {
    const world = new World(machineOf('a b>a x>a y>a,x', { shared: 'a b' }));
    world.answer('vm').answer('a').answer('x').answer('b', 'lost');
    expect(world.running).toEqual(['y']);
    world.answer('release').answer('vm');
    expect(world.phases).toEqual({ a: 'running', b: 'waiting', x: 'succeeded', y: 'running' });
  });

  test('a VM that does not boot is tried again in a new generation', () => {
    const world = new World(machineOf('a b', { shared: 'a b' }));
    world.answer('vm', 'acquire-lost').answer('release').answer('vm').answer('a').answer('b').answer('release');
    expect(world.log.filter((line) => line.startsWith('acquire'))).toEqual(['acquire _shared#0', 'acquire _shared#1']);
    expect(world.outcome?.state).toBe('succeeded');
  });
});

describe('cancel', () => {
  test('stops what runs, skips what waits, releases the VM', () => {
    const world = new World(machineOf('a b>a', { shared: 'a b' }));
    world.answer('vm');
    world.send({ type: 'cancel-requested' });
    world.send({ type: 'cancel-requested' });
    world.answer('a', 'cancelled').answer('release');
    expect(world.log).toEqual([
      'acquire _shared#0',
      'run a/0/1 in _shared#0',
      'cancel a/0/1',
      'release _shared#0',
      'finish cancelled',
    ]);
    expect(world.phases).toEqual({ a: 'cancelled', b: 'skipped' });
  });

  test('while a VM is being acquired releases it', () => {
    const world = new World(machineOf('a b', { shared: 'a b' }));
    world.send({ type: 'cancel-requested' });
    expect(world.outcome).toBeNull();
    world.answer('vm', 'acquire-broken').answer('release');
    expect(world.log).toEqual(['acquire _shared#0', 'cancel _shared', 'release _shared#0', 'finish cancelled']);
  });

  test('that comes too late leaves the success', () => {
    const world = new World(machineOf('a'));
    world.send({ type: 'cancel-requested' });
    world.answer('a');
    expect(world.outcome?.state).toBe('succeeded');
  });

  test("during the author's delay ends at once", () => {
    const world = new World(machineOf('a:2', { backoffMs: 1_000 }));
    world.answer('a', 'fail');
    world.send({ type: 'cancel-requested' });
    expect(world.outcome?.state).toBe('cancelled');
  });
});

describe('giving up', () => {
  const failure: StageFailure = { code: 'run/history-full', message: 'the history is full', stderrTail: '' };

  test('stops what runs, skips what waits, releases the VM, and fails the run with its own reason', () => {
    const world = new World(machineOf('a b>a c:3', { shared: 'a b', backoffMs: 9 }));
    world.answer('vm').answer('c', 'fail');
    world.send({ type: 'give-up', failure });
    world.send({ type: 'cancel-requested' });
    world.answer('a', 'cancelled').answer('release');
    expect(world.log.slice(-3)).toEqual(['cancel a/0/1', 'release _shared#0', 'finish failed']);
    expect(world.phases).toEqual({ a: 'cancelled', b: 'skipped', c: 'skipped' });
    expect(world.outcome).toEqual({ state: 'failed', failedStage: null, failure, output: null });
    expect(world.complaints).toEqual([]);
  });

  test('starts nothing again that fails meanwhile', () => {
    const world = new World(machineOf('a:3 b>a'));
    world.send({ type: 'give-up', failure });
    world.answer('a', 'fail');
    expect(world.outcome).toMatchObject({ state: 'failed', failure });
  });

  test('after a cancel changes nothing', () => {
    const world = new World(machineOf('a'));
    world.send({ type: 'cancel-requested' });
    world.send({ type: 'give-up', failure });
    world.answer('a', 'cancelled').answer('release');
    expect(world.outcome?.state).toBe('cancelled');
  });

  test('that comes too late leaves the success', () => {
    const world = new World(machineOf('a'));
    world.send({ type: 'give-up', failure });
    world.answer('a');
    expect(world.outcome?.state).toBe('succeeded');
  });
});

test('events about something that is no longer current change nothing', () => {
  const plan = machineOf('a:2 b');
  const first = start(plan);
  const retried = transition(plan, first.state, { type: 'stage-finished', result: resultOf('a', 'a/0/1', 'failed') });
  const stale = transition(plan, retried.state, {
    type: 'stage-finished',
    result: resultOf('a', 'a/0/1', 'succeeded'),
  });
  expect(stale).toEqual({ state: retried.state, commands: [], events: [] });
});

test('an event about a stage that the plan does not have is a bug', () => {
  const plan = machineOf('a');
  expect(() =>
    transition(plan, start(plan).state, { type: 'stage-cancelled', stageId: 'z', execKey: 'z/0/1' }),
  ).toThrow(/no stage "z"/);
});

test('the state of the largest plan stays under 1 MiB, and its run takes no more than seconds', () => {
  const text = Array.from({ length: 2_000 }, (_, index) =>
    index === 0 ? 's0' : `s${index}>s${Math.floor((index - 1) / 40)}`,
  ).join(' ');
  const plan = machineOf(text, { maxParallel: 50, carry: true });
  let { state, commands } = start(plan);
  const queue = [...commands];
  for (let command = queue.shift(); command !== undefined && command.type !== 'finish'; command = queue.shift()) {
    if (command.type !== 'run-stage') throw new Error(command.type);
    ({ state, commands } = transition(plan, state, {
      type: 'stage-finished',
      result: resultOf(command.stageId, command.execKey, 'succeeded'),
    }));
    queue.push(...commands);
  }
  expect(state.outcome?.state).toBe('succeeded');
  expect(JSON.stringify(state).length).toBeLessThan(1024 * 1024);
}, 10_000);
