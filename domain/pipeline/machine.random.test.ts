import { expect, test } from 'vitest';
import { machineOf } from '../../test/machine/plan-of.ts';
import { type Ending, transitionBound, World } from '../../test/machine/world.ts';

/** A small generator with a seed, so that a failure can be run again. */
function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

function randomWorld(random: (below: number) => number): World {
  const count = 1 + random(12);
  const ids = Array.from({ length: count }, (_, index) => `s${index}`);
  const text = ids.map((id, index) => {
    const before = ids
      .slice(0, index)
      .flatMap((earlier) => (random(4) === 0 ? [`${earlier}${['', '', '', '!', '~'][random(5)]!}`] : []));
    return `${id}:${1 + random(3)}${before.length > 0 ? `>${before.join(',')}` : ''}`;
  });
  const shared = ids.filter(() => random(2) === 0).join(' ');
  const merge = random(2) === 0 ? {} : { merge: ids.slice(random(count)).join(' ') };
  const ask = ids.filter(() => random(6) === 0).join(' ');
  const bare = ids.filter(() => random(8) === 0).join(' ');
  return new World(
    machineOf(text.join(' '), {
      shared,
      ask,
      bare,
      maxParallel: 1 + random(4),
      backoffMs: random(2) * 100,
      carry: true,
      ...merge,
    }),
  );
}

const STAGE_ENDINGS: readonly Ending[] = ['ok', 'ok', 'ok', 'pass', 'fail', 'lost', 'broken'];
const ACQUIRE_ENDINGS: readonly Ending[] = ['ok', 'ok', 'ok', 'acquire-lost', 'acquire-broken'];

test('any plan in any order of events ends, releases every VM, and breaks no promise', () => {
  const outcomes = new Set<string>();
  for (let seed = 1; seed <= 1_500; seed += 1) {
    const random = randomOf(seed);
    const world = randomWorld(random);
    const isCalm = random(3) === 0;
    const bound = transitionBound(world.plan);
    while (world.outcome === null && world.transitions < bound) {
      if (random(40) === 0) {
        world.send(
          random(2) === 0
            ? { type: 'cancel-requested' }
            : { type: 'give-up', failure: { code: 'run/history-full', message: 'full', stderrTail: '' } },
        );
        continue;
      }
      if (world.pending.length === 0) break;
      const index = random(world.pending.length);
      const kinds = world.pending[index]!.type === 'acquire-vm' ? ACQUIRE_ENDINGS : STAGE_ENDINGS;
      const ending = isCalm
        ? 'ok'
        : world.state.cancelRequested && random(2) === 0
          ? 'cancelled'
          : kinds[random(kinds.length)]!;
      world.answerAt(index, ending);
    }
    expect(world.complaints, `seed ${seed}: ${world.log.join('; ')}`).toEqual([]);
    expect(world.outcome, `seed ${seed} never ends: ${world.log.join('; ')}`).not.toBeNull();
    expect(new Set(world.events.map(({ id }) => id)).size, `seed ${seed}: event ids repeat`).toBe(world.events.length);
    outcomes.add(world.outcome!.state);
  }
  expect([...outcomes].sort()).toEqual(['cancelled', 'failed', 'succeeded']);
}, 60_000);
