import { describe, expect, test } from 'vitest';
import { LOST_VM_ATTEMPTS } from '../errors/code-info.ts';
import type { StageFailure } from '../run/stage-result.ts';
import { isOnlyWaiting } from './state.ts';
import { start, transition } from './machine.ts';
import { machineFromWire, machinePlanOf, machineToWire } from './machine-plan.ts';
import { machineOf, planOf } from '../../test/machine/plan-of.ts';
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

  test('at most max_parallel stages run, in plan order', () => {
    const world = new World(machineOf('a b c d', { maxParallel: 2 }));
    expect(world.running).toEqual(['a', 'b']);
    world.answer('b');
    expect(world.running).toEqual(['a', 'c']);
  });

  test("the host's ceiling lowers max_parallel", () => {
    expect(start(machineOf('a b c'), { maxParallel: 1 }).commands).toHaveLength(1);
  });

  test('a stage without a VM starts while another stage waits for its VM', () => {
    const world = new World(machineOf('a b c', { shared: 'a b', maxParallel: 1 }));
    expect(world.log).toEqual(['acquire _shared#0', 'run c/0/1 in c#0']);
  });

  test('a stage gets the outputs that it takes', () => {
    const world = new World(machineOf('a b>a', { carry: true }));
    world.answer('a');
    const command = world.pending[0]!;
    expect(command.type === 'run-stage' && Object.keys(command.upstream)).toEqual(['a']);
  });
});

describe('failure', () => {
  test('skips stages that depend on the failed one, each for its nearest reason, while other stages continue', () => {
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

  test('attempts of the only stage in a kept VM run in the same VM, like attempts of stages that share one', () => {
    const alone = machineOf('a:3', { shared: 'a', backoffMs: 500 });
    const kept = { ...alone, scopes: alone.scopes.map((scope) => ({ ...scope, keepsVm: true as const })) };
    const logOf = (plan: typeof alone): readonly string[] => {
      const world = new World(plan);
      world.answer('vm').answer('a', 'fail').answer('timer').answer('a');
      return world.log.filter((line) => !line.includes(' b/') && !line.startsWith('finish'));
    };
    expect(logOf(kept)).toEqual([
      'acquire _shared#0',
      'run a/0/1 in _shared#0',
      'timer retry/a/1 500',
      'run a/0/2 in _shared#0',
      'release _shared#0',
    ]);
    const beside = new World(machineOf('a:3 b>a', { shared: 'a b', backoffMs: 500 }));
    beside.answer('vm').answer('a', 'fail').answer('timer').answer('a');
    expect(beside.log.slice(0, 4)).toEqual(logOf(kept).slice(0, 4));
    expect(machineFromWire(machineToWire(kept))).toEqual(kept);
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

  test('a tolerated failure lets dependent stages start, and the run succeeds', () => {
    const world = new World(machineOf('a b>a c>a!', { tolerate: 'a', carry: true }));
    world.answer('a', 'fail');
    expect(world.phases).toEqual({ a: 'failed', b: 'running', c: 'running' });
    expect(world.pending.find((command) => command.type === 'run-stage')).toMatchObject({
      stageId: 'b',
      upstream: { a: { output: null, outputs: {} } },
    });
    world.answer('b').answer('c');
    expect(world.outcome).toMatchObject({ state: 'succeeded', failedStage: null, failure: null, tolerated: ['a'] });
  });

  test('a tolerated failure hides no other failure', () => {
    const world = new World(machineOf('a b>a c', { tolerate: 'a' }));
    world.answer('a', 'fail').answer('b', 'fail').answer('c');
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'b', tolerated: ['a'] });
  });

  test('a tolerated stage that fails hands its input on', () => {
    const world = new World(machineOf('a b>a c>b d>c', { tolerate: 'b c', chain: true }));
    world.answer('a').answer('b', 'fail').answer('c', 'broken').answer('release');
    const command = world.pending[0]!;
    expect(command).toMatchObject({
      stageId: 'd',
      upstream: { c: { output: { sha256: expect.stringMatching(/^a/) } } },
    });
  });

  test('a merge leaves out a tolerated part that failed, and no other part', () => {
    const world = new World(machineOf('a b', { tolerate: 'a', merge: 'a b' }));
    world.answer('a', 'fail').answer('b');
    expect(world.finish?.merge).toEqual([{ name: 'b', output: expect.anything() }]);
    const other = new World(machineOf('a b', { tolerate: 'a', merge: 'a b' }));
    other.answer('a').answer('b', 'fail');
    expect(other.finish?.merge).toBeNull();
  });

  test('a shared VM that is lost for good is not tolerated, because other stages were to run in it', () => {
    const world = new World(machineOf('a b>a', { shared: 'a b', tolerate: 'a' }));
    world.answer('vm');
    for (let losses = 0; losses < LOST_VM_ATTEMPTS; losses += 1)
      world.answer('a', 'lost').answer('release').answer('vm');
    world.answer('a', 'lost').answer('release');
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'a', failure: { code: 'vm/lost' } });
    expect(world.outcome?.tolerated).toBeUndefined();
  });

  test('pauses grow if the plan sets a factor', () => {
    const world = new World(machineOf('a:4', { backoffMs: 500, retry: { factor: 3, maxBackoffMs: 2_000 } }));
    for (let attempt = 1; attempt < 4; attempt += 1) world.answer('a', 'fail').answer('timer');
    expect(world.log.filter((line) => line.startsWith('timer'))).toEqual([
      'timer retry/a/1 500',
      'timer retry/a/2 1500',
      'timer retry/a/3 2000',
    ]);
  });

  test('a lost VM does not make the next pause longer', () => {
    const world = new World(machineOf('a:4', { backoffMs: 500, retry: { factor: 3 } }));
    world.answer('a', 'lost').answer('release').answer('a', 'fail');
    expect(world.log.at(-1)).toBe('timer retry/a/2 500');
  });

  test('a failure that is not worth another attempt is final', () => {
    const byExitCode = new World(machineOf('a:3', { retry: { nonRetryable: ['exit:1'] } }));
    byExitCode.answer('a', 'fail');
    expect(byExitCode.outcome).toMatchObject({ state: 'failed', failedStage: 'a' });
    const another = new World(machineOf('a:3', { retry: { nonRetryable: ['exit:2'] } }));
    another.answer('a', 'fail');
    expect(another.running).toEqual(['a']);
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

  test('a failure of the infrastructure is not retried, and a VM that it may have left is released', () => {
    const world = new World(machineOf('a:3'));
    world.answer('a', 'broken').answer('release');
    expect(world.log).toEqual(['run a/0/1 in a#0', 'release a#0', 'finish failed']);
  });

  test('a shared VM that cannot be acquired fails the stages that wait for it', () => {
    const world = new World(machineOf('a b>a', { shared: 'a b' }));
    world.answer('vm', 'acquire-broken').answer('release');
    expect(world.phases).toEqual({ a: 'failed', b: 'skipped' });
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'a', failure: { code: 'host/not-ready' } });
  });
});

describe('a failure without a result', () => {
  const failures = (world: World): readonly unknown[] =>
    world.events.flatMap(({ id, body }) =>
      body.type === 'stage-failed' ? [[id, body.execKey, body.failure.code, body.failure.message]] : [],
    );

  test('a failure of the infrastructure has an event, and a failure with a stored result has no event', () => {
    const world = new World(machineOf('a b c>a'));
    world.answer('a', 'broken').answer('b', 'fail').answer('release');
    expect(failures(world)).toEqual([['stage/a/0/1/failed', 'a/0/1', 'host/not-ready', 'no kernel']]);
  });

  test('the last lost VM has an event, for the attempt that it ended', () => {
    const message = `the VM was lost ${LOST_VM_ATTEMPTS + 1} times; the last time: the keeper died`;
    const own = new World(machineOf('a'));
    for (let lost = 0; lost <= LOST_VM_ATTEMPTS; lost += 1) own.answer('a', 'lost').answer('release');
    const last = LOST_VM_ATTEMPTS + 1;
    expect(failures(own)).toEqual([[`stage/a/0/${last}/failed`, `a/0/${last}`, 'vm/lost', message]]);

    const shared = new World(machineOf('a b c>a', { shared: 'a b c' }));
    for (let lost = 0; lost <= LOST_VM_ATTEMPTS; lost += 1)
      shared.answer('vm').answer('a', 'lost').answer('b', 'lost').answer('release');
    expect(shared.phases).toEqual({ a: 'failed', b: 'failed', c: 'skipped' });
    expect(failures(shared)).toEqual(
      ['a', 'b'].map((stage) => [
        `stage/${stage}/0/${last}/failed`,
        `${stage}/0/${last}`,
        'vm/lost',
        expect.any(String),
      ]),
    );
  });

  test('a VM that did not start has an event, for the attempt that could not begin', () => {
    const world = new World(machineOf('a b>a', { shared: 'a b' }));
    world
      .answer('vm')
      .answer('a')
      .answer('b', 'lost')
      .answer('release')
      .answer('vm', 'acquire-broken')
      .answer('release');
    expect(world.phases).toEqual({ a: 'failed', b: 'skipped' });
    expect(failures(world)).toEqual([['stage/a/0/2/failed', 'a/0/2', 'host/not-ready', 'no kernel']]);
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

  test('does not exist if one of its parts is missing', () => {
    const world = merged('a b');
    world.answer('a').answer('b', 'fail');
    expect(world.finish).toMatchObject({ outcome: { state: 'failed', failedStage: 'b', output: null }, merge: null });
  });

  test('is kept if another stage fails', () => {
    const world = merged('a b c');
    world.answer('c', 'fail').answer('a').answer('b');
    expect(world.finish).toMatchObject({
      outcome: { state: 'failed', failedStage: 'c' },
      merge: [{ name: 'b' }, { name: 'a' }],
    });
  });

  test('has the outputs of the last attempts if a VM was lost', () => {
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
        { type: 'scope-restarted', scope: '_shared', reason: 'vm/lost: the keeper died', stages: ['a', 'b', 'c'] },
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

  test('name the stages that the loss interrupted, even if no stage had ended', () => {
    const world = new World(machineOf('a b>a', { shared: 'a b' }));
    world.answer('vm').answer('a', 'lost').answer('release');
    expect(world.events.map(({ body }) => body)).toEqual([
      { type: 'scope-restarted', scope: '_shared', reason: 'vm/lost: the keeper died', stages: ['a'] },
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

  test('keep the results of stages outside of the scope, and hold back stages that have not started', () => {
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

  test('a cancelled service keeps its output, and no other cancelled stage does', () => {
    const serve = new World(machineOf('serve'));
    const output = { sha256: 'f'.repeat(64), sizeBytes: 3, mediaType: 'application/json' };
    serve.send({ type: 'cancel-requested' });
    const cancelled = { ...resultOf('serve', 'serve/0/1', 'failed'), outcome: 'cancelled', output: null } as const;
    serve.send({ type: 'stage-finished', result: { ...cancelled, output, outputs: {} } });
    expect(serve.outcome).toMatchObject({ state: 'cancelled', failedStage: null, output });
    const other = new World(machineOf('serve'));
    other.send({ type: 'cancel-requested' });
    other.send({ type: 'stage-finished', result: { ...cancelled, outputs: {} } });
    expect(other.outcome).toMatchObject({ state: 'cancelled', output: null });
  });

  test('while a VM is being acquired releases it', () => {
    const world = new World(machineOf('a b', { shared: 'a b' }));
    world.send({ type: 'cancel-requested' });
    expect(world.outcome).toBeNull();
    world.answer('vm', 'acquire-broken').answer('release');
    expect(world.log).toEqual(['acquire _shared#0', 'cancel _shared', 'release _shared#0', 'finish cancelled']);
  });

  test('that comes too late does not change the success', () => {
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

  test('does not retry a stage that fails afterwards', () => {
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

  test('that comes too late does not change the success', () => {
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

test('the state of the largest plan stays under 1 MiB, and its run takes only seconds', () => {
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
}, 300_000);

describe('waits', () => {
  test('a stage that waits takes no VM and no slot, and has no output', () => {
    const world = new World(machineOf('pause a b>pause', { wait: 'pause', maxParallel: 1 }));
    expect(world.phases).toEqual({ pause: 'sleeping', a: 'running', b: 'waiting' });
    world.answer('pause').answer('a').answer('b');
    expect(world.log).toEqual(['wait pause/0/1', 'run a/0/1 in a#0', 'run b/0/1 in b#0', 'finish succeeded']);
    expect(world.events.map(({ id, body }) => [id, body.type])).toEqual([['stage/pause/0/1/woken', 'stage-woken']]);
  });

  test('a cancel ends a wait at once, and the later event of its timer is ignored', () => {
    const world = new World(machineOf('pause b>pause c', { wait: 'pause' }));
    world.send({ type: 'cancel-requested' });
    expect(world.phases).toEqual({ pause: 'cancelled', b: 'skipped', c: 'running' });
    expect(world.events.find(({ body }) => body.type === 'stage-woken')?.body).toMatchObject({ outcome: 'cancelled' });
    world.send({ type: 'waited', stageId: 'pause', attempt: 1 });
    world.answer('c', 'cancelled').answer('release');
    expect(world.outcome).toMatchObject({ state: 'cancelled' });
  });

  test('a run only waits while one stage waits and nothing else is under way', () => {
    const world = new World(machineOf('a b>a c d:2', { wait: 'b', ask: 'c', backoffMs: 100 }));
    const seen = [isOnlyWaiting(world.state)];
    for (const answer of [
      () => world.answer('a'),
      () => world.answer('d', 'fail'),
      () => world.answer('timer'),
      () => world.answer('d'),
      () => world.answer('b'),
      () => world.answer('c'),
    ]) {
      answer();
      seen.push(isOnlyWaiting(world.state));
    }
    expect(seen).toEqual([false, false, false, false, true, true, false]);
  });

  test('a stage without a VM that runs is under way', () => {
    expect(isOnlyWaiting(new World(machineOf('a b', { wait: 'a', bare: 'b' })).state)).toBe(false);
  });
});

describe('after a failure of several stages', () => {
  test('the first failure is enough', () => {
    const world = new World(machineOf('a b c d>a!,b!,c!', { anyFailure: 'd' }));
    world.answer('a');
    expect(world.phases['d']).toBe('waiting');
    world.answer('b', 'fail');
    expect(world.phases['d']).toBe('running');
    world.answer('c', 'fail').answer('d');
    expect(world.phases['d']).toBe('succeeded');
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'b' });
  });

  test('without one it is skipped, and the run succeeds', () => {
    const world = new World(machineOf('a b c>a!,b!', { anyFailure: 'c' }));
    world.answer('a').answer('b');
    expect(world.phases['c']).toBe('skipped');
    expect(world.events.at(-1)?.body).toMatchObject({ reason: 'no stage that it names in `on_failure` failed' });
    expect(world.outcome?.state).toBe('succeeded');
  });

  test('other edges have to hold as well', () => {
    const world = new World(machineOf('a b c d>a!,b!,c', { anyFailure: 'd' }));
    world.answer('a', 'fail');
    expect(world.phases['d']).toBe('waiting');
    world.answer('c').answer('b', 'fail');
    expect(world.phases['d']).toBe('running');
  });

  test('a stage that ran again after a lost VM and then fails starts it', () => {
    const world = new World(machineOf('a b c d>a!,c!', { shared: 'a b', anyFailure: 'd' }));
    world.answer('c').answer('vm').answer('a');
    expect(world.phases['d']).toBe('skipped');
    world.answer('b', 'lost').answer('release').answer('vm');
    expect(world.phases['d']).toBe('waiting');
    world.answer('a', 'fail');
    expect(world.phases['d']).toBe('running');
  });
});

describe('stages with `finally`', () => {
  const failure = { code: 'run/timeout', message: 'too long', stderrTail: '' } as const;

  test('start once every other stage has ended, run side by side, and the run has its outcome after them', () => {
    const world = new World(machineOf('a b>a last x', { finally: 'last x', graceMs: 9 }));
    world.answer('a');
    expect(world.running).toEqual(['b']);
    world.answer('b');
    expect(world.running).toEqual(['last', 'x']);
    expect(world.outcome).toBeNull();
    expect(world.pending).toContainEqual({ type: 'start-timer', id: 'finally', delayMs: 9 });
    world.answer('last').answer('x');
    expect(world.outcome?.state).toBe('succeeded');
  });

  test('start after a failure, and after the skips that it causes', () => {
    const world = new World(machineOf('a b>a c last', { finally: 'last' }));
    world.answer('a', 'fail');
    expect(world.running).toEqual(['c']);
    world.answer('c').answer('last');
    expect(world.phases).toMatchObject({ b: 'skipped', last: 'succeeded' });
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'a' });
  });

  test('after a cancel, once what ran has stopped; the run is cancelled', () => {
    const world = new World(machineOf('a b>a last:2', { finally: 'last' }));
    world.send({ type: 'cancel-requested' });
    expect(world.running).toEqual(['a']);
    world.answer('a', 'cancelled').answer('release');
    expect(world.running).toEqual(['last']);
    world.answer('last', 'fail');
    expect(world.running).toEqual(['last']);
    world.answer('last');
    expect(world.outcome).toMatchObject({ state: 'cancelled', failure: null });
  });

  test('start after the time limit of the run; the run has failed with it, even if one of them fails', () => {
    const world = new World(machineOf('a last', { finally: 'last' }));
    world.send({ type: 'give-up', failure }).answer('a', 'cancelled').answer('release').answer('last', 'fail');
    expect(world.outcome).toMatchObject({ state: 'failed', failure, failedStage: null });
  });

  test('that fail make a run fail that had succeeded, and hide no earlier failure', () => {
    const one = new World(machineOf('a last', { finally: 'last' }));
    one.answer('a').answer('last', 'fail');
    expect(one.outcome).toMatchObject({ state: 'failed', failedStage: 'last' });
    const two = new World(machineOf('a last', { finally: 'last' }));
    two.answer('a', 'fail').answer('last', 'fail');
    expect(two.outcome).toMatchObject({ state: 'failed', failedStage: 'a' });
    const tolerated = new World(machineOf('a last', { finally: 'last', tolerate: 'last' }));
    tolerated.answer('a').answer('last', 'fail');
    expect(tolerated.outcome).toMatchObject({ state: 'succeeded', tolerated: ['last'] });
  });

  test('a first cancel while they run stops none of them, a second one does', () => {
    const world = new World(machineOf('a last', { finally: 'last' }));
    world.answer('a').send({ type: 'cancel-requested' });
    expect(world.log.filter((line) => line.startsWith('cancel'))).toEqual([]);
    world.send({ type: 'cancel-finally' });
    world.answer('last', 'cancelled').answer('release');
    expect(world.outcome?.state).toBe('cancelled');
  });

  test('a second cancel while others still stop leaves them out', () => {
    const world = new World(machineOf('a last', { finally: 'last' }));
    world
      .send({ type: 'cancel-requested' })
      .send({ type: 'cancel-finally' })
      .answer('a', 'cancelled')
      .answer('release');
    expect(world.phases['last']).toBe('skipped');
    expect(world.outcome?.state).toBe('cancelled');
  });

  test('that are cancelled leave an earlier failure as the outcome of the run', () => {
    const world = new World(machineOf('a last', { finally: 'last' }));
    world.answer('a', 'fail').send({ type: 'cancel-requested' }).send({ type: 'cancel-finally' });
    world.answer('last', 'cancelled').answer('release');
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'a' });
  });

  test('once their time is over what runs is cancelled, nothing starts, and the run fails', () => {
    const world = new World(machineOf('a last x', { finally: 'last x', graceMs: 90_000, maxParallel: 1 }));
    world.answer('a').answer('timer').answer('last', 'cancelled').answer('release');
    expect(world.phases).toMatchObject({ last: 'cancelled', x: 'skipped' });
    expect(world.outcome).toMatchObject({
      state: 'failed',
      failedStage: 'last',
      failure: {
        code: 'run/grace',
        message: 'the stages with `finally` took longer than their 1m 30s (`grace_secs`)',
      },
    });
  });

  test('the time of the run is not theirs, a full history ends them', () => {
    const world = new World(machineOf('a last', { finally: 'last' }));
    world.answer('a').send({ type: 'give-up', failure });
    expect(world.state.finallyStop).toBeNull();
    const full = { code: 'run/history-full', message: 'full', stderrTail: '' } as const;
    world.send({ type: 'give-up', failure: full }).answer('last', 'cancelled').answer('release');
    expect(world.outcome).toMatchObject({ state: 'failed', failedStage: 'last', failure: full });
  });

  test('begin at once if an earlier run has done all other work', () => {
    const world = new World(machineOf('a last', { finally: 'last' }), { given: { a: { output: null, outputs: {} } } });
    expect(world.running).toEqual(['last']);
  });

  test('get another VM if they lose theirs', () => {
    const world = new World(machineOf('a last', { finally: 'last' }));
    world
      .send({ type: 'cancel-requested' })
      .answer('a', 'cancelled')
      .answer('release')
      .answer('last', 'lost')
      .answer('release');
    expect(world.running).toEqual(['last']);
  });

  test('get the outputs that exist of the stages before them', () => {
    const plan = machineOf('a last', { finally: 'last' });
    const taking = plan.stages.map((stage) =>
      stage.id === 'last' ? { ...stage, takes: [{ stage: 'a', output: false, outputs: ['logs'] }] } : stage,
    );
    const world = new World({ ...plan, stages: taking });
    world.answer('a', 'fail');
    expect(world.pending).toContainEqual(
      expect.objectContaining({ stageId: 'last', upstream: { a: { output: null, outputs: {} } } }),
    );
  });
});

describe('the input that is carried past a tolerated failure', () => {
  const upstreamOf = (world: World, stage: string): unknown => {
    const command = world.pending.find((each) => each.type === 'run-stage' && each.stageId === stage);
    return command?.type === 'run-stage' ? command.upstream : undefined;
  };

  test('the parts of a merge that exist are carried', () => {
    const world = new World(machineOf('a b c>a,b d>c e>d', { mixed: true, tolerate: 'b c d' }));
    world.answer('a').answer('b', 'fail').answer('c', 'fail');
    const parts = {
      a: { output: expect.objectContaining({ sizeBytes: 1 }), outputs: {} },
      b: { output: null, outputs: {} },
    };
    expect(upstreamOf(world, 'd')).toMatchObject({ c: { output: null }, ...parts });
    world.answer('d', 'fail');
    expect(upstreamOf(world, 'e')).toMatchObject({ d: { output: null }, ...parts });
  });

  test('a stage with an output brings no parts', () => {
    const world = new World(machineOf('a b c>a,b d>c', { mixed: true, tolerate: 'c' }));
    world.answer('a').answer('b').answer('c');
    expect(Object.keys(upstreamOf(world, 'd') as object)).toEqual(['c']);
  });

  test('a stage that may be passed is decided with the parts, which it hands on', () => {
    const plan = {
      ...planOf('a b c>a,b d>c e>d', { mixed: true, tolerate: 'c', when: 'd' }),
      kind: 'pipeline',
    } as const;
    const world = new World(machinePlanOf(plan));
    world.answer('a').answer('b').answer('c', 'fail');
    const command = world.pending.find(({ type }) => type === 'evaluate');
    expect(command).toMatchObject({
      upstream: { a: { state: 'succeeded' }, b: { state: 'succeeded' }, c: { output: null } },
    });
  });
});
