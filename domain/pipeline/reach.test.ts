import { expect, test } from 'vitest';
import { machineOf, planOf } from '../../test/machine/plan-of.ts';
import { World } from '../../test/machine/world.ts';
import { LOST_VM_ATTEMPTS } from '../errors/code-info.ts';
import { isReachable, lastAttempt, lastGeneration } from './reach.ts';

/** Tests with random plans check that no run leaves these bounds: `World` complains. */
test('a stage with its own VM reaches its last attempt and no further', () => {
  const plan = machineOf('a:2');
  const world = new World(plan).answer('a', 'fail');
  for (let lost = 0; lost < LOST_VM_ATTEMPTS; lost += 1) world.answer('a', 'lost').answer('release');
  expect(world.log.at(-1)).toBe(
    `run a/0/${lastAttempt(plan.stages[0]!)} in a#${lastGeneration(plan.scopes[0]!, () => plan.stages[0])}`,
  );
  expect(world.complaints).toEqual([]);
});

test('a stage in a shared VM reaches its last attempt and no further', () => {
  const plan = machineOf('a:2 b', { shared: 'a b', maxParallel: 1 });
  const world = new World(plan);
  for (let lost = 0; lost < LOST_VM_ATTEMPTS; lost += 1)
    world.answer('vm').answer('a').answer('b', 'lost').answer('release');
  world.answer('vm').answer('a', 'fail');
  expect(world.log.at(-1)).toBe(
    `run a/0/${lastAttempt(plan.stages[0]!)} in _shared#${lastGeneration(plan.scopes[0]!, (id) => plan.stages.find((stage) => stage.id === id))}`,
  );
  expect(world.complaints).toEqual([]);
});

test('a stage whose VM stays for its attempts reaches its last attempt and no further', () => {
  const plan = machineOf('a:2', { shared: 'a' });
  const kept = { ...plan, scopes: plan.scopes.map((scope) => ({ ...scope, keepsVm: true as const })) };
  const world = new World(kept);
  for (let lost = 0; lost < LOST_VM_ATTEMPTS; lost += 1) world.answer('vm').answer('a', 'lost').answer('release');
  world.answer('vm').answer('a', 'fail');
  expect(world.log.at(-1)).toBe(
    `run a/0/${lastAttempt(kept.stages[0]!)} in _shared#${lastGeneration(kept.scopes[0]!, () => kept.stages[0])}`,
  );
  expect(world.complaints).toEqual([]);
});

test.each([
  [0, 0, false],
  [1, 0, true],
  [1, 3, true],
  [1, 4, false],
  [1, -1, false],
  [1.5, 0, false],
  [5, 0, true],
  [6, 0, false],
  [Number.NaN, 0, false],
  [1, Number.POSITIVE_INFINITY, false],
])('attempt %s in a shared VM of generation %s: %s', (attempt, generation, expected) => {
  expect(isReachable(planOf('a:2').stages[0]!, true, attempt, generation)).toBe(expected);
});
