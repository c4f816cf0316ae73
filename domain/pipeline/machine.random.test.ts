import { expect, test } from 'vitest';
import { machineOf } from '../../test/machine/plan-of.ts';
import { randomOf } from '../../test/machine/random.ts';
import { type Ending, transitionBound, World } from '../../test/machine/world.ts';
import type { MachinePlan } from './machine-plan.ts';
import type { GivenStage } from './state.ts';

function randomWorld(random: (below: number) => number, saved: boolean): World {
  const count = 1 + random(12);
  const ids = Array.from({ length: count }, (_, index) => `s${index}`);
  const last = random(3) === 0 ? [] : ids.slice(1).filter(() => random(5) === 0);
  const text = ids.map((id, index) => {
    if (last.includes(id)) return `${id}:${1 + random(3)}`;
    const before = ids
      .slice(0, index)
      .filter((earlier) => !last.includes(earlier))
      .flatMap((earlier) => (random(4) === 0 ? [`${earlier}${['', '', '', '!', '~'][random(5)]!}`] : []));
    return `${id}:${1 + random(3)}${before.length > 0 ? `>${before.join(',')}` : ''}`;
  });
  const loop = random(2) === 0 ? null : { end: 'L', stages: ['l0', 'l1', 'l2'].slice(0, 1 + random(3)).join(' ') };
  const within = loop?.stages.split(' ') ?? [];
  within.forEach((id, at) => {
    const before = at > 0 ? within[at - 1] : last.includes('s0') ? undefined : 's0';
    text.push(`${id}:${1 + random(2)}${before === undefined ? '' : `>${before}`}`);
  });
  if (loop !== null) text.push(`L>${within.join(',')}`, `end>L,${within[random(within.length)]}`);
  const part = random(2) === 0 ? null : randomPart(random);
  if (part !== null) text.push(...part.text);
  // A part has its own VMs.
  const mates = part !== null && random(2) === 0 ? part.inner : ids;
  const shared = mates.filter((id) => !last.includes(id) && random(2) === 0).join(' ');
  const merge =
    random(2) === 0
      ? {}
      : {
          merge: randomMerge(
            ids.filter((id) => !last.includes(id)),
            random,
          ),
        };
  const ask = ids.filter((id) => !last.includes(id) && random(6) === 0).join(' ');
  const wait = ids.filter((id) => !last.includes(id) && random(8) === 0).join(' ');
  const when = [...ids, ...within.slice(0, -1)].filter(() => random(4) === 0).join(' ');
  const bare = [...ids.filter(() => random(8) === 0), ...Object.keys(part?.covers ?? {})].join(' ');
  const machine = machineOf(text.join(' '), {
    shared,
    saved,
    ask,
    wait,
    bare,
    when,
    maxParallel: 1 + random(4),
    finally: last.join(' '),
    graceMs: 1_000,
    backoffMs: random(2) * 100,
    retry: [{}, { factor: 2, maxBackoffMs: 150 }, { nonRetryable: ['exit:1'] }][random(3)]!,
    ...(loop === null
      ? {}
      : { loop: { ...loop, maxVisits: 1 + random(4), onLimit: random(2) === 0 ? 'fail' : 'pass' } }),
    anyFailure: ids.filter(() => random(2) === 0).join(' '),
    tolerate: [...ids.filter(() => random(6) === 0), ...Object.keys(part?.covers ?? {})].join(' '),
    ...[{ chain: true }, { carry: true }, { mixed: true }][random(3)]!,
    ...merge,
  });
  const plan: MachinePlan = {
    ...machine,
    stages: machine.stages.map((stage) => {
      const covers = part?.covers[stage.id];
      return covers === undefined ? stage : { ...stage, covers };
    }),
  };
  return new World(plan, random(3) === 0 ? { given: randomGiven(plan, random) } : {});
}

/** A part whose failure is tolerated as a whole, possibly within another such part, and the stages after it. */
function randomPart(random: (below: number) => number): {
  readonly text: readonly string[];
  readonly inner: readonly string[];
  readonly covers: Readonly<Record<string, readonly string[]>>;
} {
  const inner = ['p0', `p1${['>p0', '', '>p0!', '>p0~'][random(4)]!}`, 'p2>p1'];
  const text = [...inner, `P>p2,p1${random(2) === 0 ? '' : '~'},p0~`];
  const members = ['p0', 'p1', 'p2'];
  if (random(2) === 0) return { text: [...text, 'afterP>P'], inner: members, covers: { P: members } };
  return {
    text: [...text, 'q0>P', 'q1', 'Q>q0,q1', 'afterQ>Q'],
    inner: members,
    covers: { P: members, Q: [...members, 'P', 'q0', 'q1'] },
  };
}

function randomMerge(ids: readonly string[], random: (below: number) => number): string {
  return ids.slice(random(ids.length)).join(' ');
}

/** Random results of an earlier run. A stage is given only if all stages before it are given. */
function randomGiven(plan: MachinePlan, random: (below: number) => number): Readonly<Record<string, GivenStage>> {
  const given = new Map<string, GivenStage>();
  for (const { id, after } of plan.stages) {
    if (plan.stages.find((stage) => stage.id === id)!.finally === true) continue;
    if (random(3) === 0 || !after.every(({ stage, on }) => on !== 'failure' && given.has(stage))) continue;
    const ref = { sha256: 'f'.repeat(64), sizeBytes: 1, mediaType: 'text/plain' };
    given.set(id, random(5) === 0 ? { output: null, outputs: {}, passed: true } : { output: ref, outputs: {} });
  }
  return Object.fromEntries(given);
}

const STAGE_ENDINGS: readonly Ending[] = ['ok', 'ok', 'ok', 'pass', 'not', 'fail', 'lost', 'broken'];
const ACQUIRE_ENDINGS: readonly Ending[] = ['ok', 'ok', 'ok', 'acquire-lost', 'acquire-broken'];

test('any plan in any order of events ends, releases every VM, and breaks no promise', () => {
  const outcomes = new Set<string>();
  for (let seed = 1; seed <= 1_500; seed += 1) {
    const random = randomOf(seed);
    const world = randomWorld(random, seed % 2 === 0);
    world.checkpointOf = ({ length }) => length - Math.min(length, [0, 1, 2, 9][(seed >> 1) % 4]!);
    const isCalm = random(3) === 0;
    const bound = transitionBound(world.plan);
    while (world.outcome === null && world.transitions < bound) {
      if (random(40) === 0) {
        const what = random(5);
        world.send(
          what < 2
            ? { type: 'cancel-requested' }
            : what === 2
              ? { type: 'cancel-finally' }
              : { type: 'give-up', failure: { code: 'run/history-full', message: 'full', stderrTail: '' } },
        );
        continue;
      }
      if (world.pending.length === 0) break;
      const index = random(world.pending.length);
      const kinds = world.pending[index]!.type === 'acquire-vm' ? ACQUIRE_ENDINGS : STAGE_ENDINGS;
      const ending = isCalm
        ? 'ok'
        : world.isToStop(world.pending[index]!) && random(2) === 0
          ? 'cancelled'
          : kinds[random(kinds.length)]!;
      world.answerAt(index, ending);
    }
    expect(world.complaints, `seed ${seed}: ${world.log.join('; ')}`).toEqual([]);
    expect(world.outcome, `seed ${seed} never ends: ${world.log.join('; ')}`).not.toBeNull();
    expect(new Set(world.events.map(({ id }) => id)).size, `seed ${seed}: event ids repeat`).toBe(world.events.length);
    const failed = Object.keys(world.phases).filter((id) => world.phases[id] === 'failed');
    // A failed stage fails the run, or its failure is tolerated, or the failure of its part is.
    const tolerated = world.outcome!.tolerated ?? [];
    const covered = world.plan.stages.flatMap(({ id, covers = [] }) => (tolerated.includes(id) ? covers : []));
    const missed =
      world.outcome!.state === 'succeeded' ? failed.filter((id) => ![...tolerated, ...covered].includes(id)) : [];
    expect(missed, `seed ${seed}: ${world.log.join('; ')}`).toEqual([]);
    outcomes.add(world.outcome!.state);
  }
  expect([...outcomes].sort()).toEqual(['cancelled', 'failed', 'succeeded']);
}, 300_000);
