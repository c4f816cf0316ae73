import { expect, test } from 'vitest';
import { createCapacity } from './capacity.ts';

const key = (scope: string) => ({ runId: 'r', scope, instance: [], generation: 0 });
const ROOM = { availableBytes: 1, floorBytes: 1 };
const full = { code: 'vm/no-capacity', nextRetryDelayMs: expect.any(Number) };

const OVERHEAD_MIB = 150;

/** Room for two VMs of 100 MiB. */
function twoRooms(now: () => number = () => 0) {
  return createCapacity({
    overheadMib: OVERHEAD_MIB,
    budgetMib: 2 * (100 + OVERHEAD_MIB),
    availableMib: () => 10_000,
    disk: () => ROOM,
    now,
  });
}

function refusal(work: () => void): unknown {
  try {
    work();
    return null;
  } catch (error) {
    return error;
  }
}

test('asking again for a VM that is counted costs nothing', () => {
  const capacity = twoRooms();
  for (let again = 0; again < 5; again += 1) capacity.reserve(key('a'), 100);
  capacity.countLive('r/b/0', 100);
  capacity.reserve(key('b'), 100);
  expect(refusal(() => capacity.reserve(key('c'), 100))).toMatchObject(full);
  capacity.release(key('a'));
  capacity.reserve(key('c'), 100);
});

test('room is given in the order of asking, even when a later one would fit', () => {
  const capacity = twoRooms();
  capacity.reserve(key('a'), 100);
  expect(refusal(() => capacity.reserve(key('large'), 300))).toMatchObject(full);
  expect(refusal(() => capacity.reserve(key('small'), 100))).toMatchObject(full);
  capacity.release(key('a'));
  expect(refusal(() => capacity.reserve(key('small'), 100))).toMatchObject(full);
  capacity.reserve(key('large'), 300);
});

test('one that stopped asking does not hold up the others', () => {
  let now = 0;
  const capacity = twoRooms(() => now);
  capacity.reserve(key('a'), 100);
  expect(refusal(() => capacity.reserve(key('gone'), 300))).toMatchObject(full);
  now = 60_000;
  capacity.reserve(key('b'), 100);
});

test('what can never fit says so at once', () => {
  expect(refusal(() => twoRooms().reserve(key('huge'), 5_000))).toMatchObject({
    code: 'vm/too-large',
    message:
      'scope huge needs 5150 MiB (5000 MiB of guest memory and 150 MiB for the VM itself), the host has 500 MiB for VMs: lower memory_mb to 350 or less',
  });
});

test('memory that others use on the host counts, but the only VM may try', () => {
  const capacity = createCapacity({
    overheadMib: OVERHEAD_MIB,
    budgetMib: 4_000,
    availableMib: () => 50,
    disk: () => ROOM,
  });
  capacity.reserve(key('a'), 100);
  expect(refusal(() => capacity.reserve(key('b'), 100))).toMatchObject(full);
});

test('no VM is started on a disk that is nearly full, and those that live are not asked about it', () => {
  let availableBytes = 10_000_000;
  const capacity = createCapacity({
    overheadMib: OVERHEAD_MIB,
    budgetMib: 4_000,
    availableMib: () => 4_000,
    disk: () => ({ availableBytes, floorBytes: 5_000_000 }),
  });
  capacity.reserve(key('a'), 100);
  availableBytes = 4_999_999;
  capacity.reserve(key('a'), 100);
  expect(refusal(() => capacity.reserve(key('b'), 100))).toMatchObject({
    ...full,
    message: expect.stringContaining('waits for room on the disk'),
  });
  availableBytes = 5_000_000;
  capacity.reserve(key('b'), 100);
});
