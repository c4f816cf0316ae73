import { expect, test } from 'vitest';
import { SANDBOX_DEFAULTS } from '../domain/plan/defaults.ts';
import { VM_OVERHEAD_MIB } from '../sandbox/micro-vm/vm-overhead.ts';
import { createVmCapacity } from './vm-capacity.ts';

const key = (scope: string) => ({ runId: 'r', scope, instance: [], generation: 0 });
const ROOM = { availableBytes: 1, floorBytes: 1 };

function hostOf(totalMib: number, overheadMib: number, availableMib = totalMib) {
  return createVmCapacity({
    overheadMib,
    living: [],
    disk: () => ROOM,
    readMemory: () => ({ totalMib, availableMib }),
  });
}

test.each(Object.entries(VM_OVERHEAD_MIB))(
  'a host with little memory runs a spec that says nothing of memory (%s)',
  (_, overheadMib) => {
    for (const totalMib of [1_200, 1_536, 2_048])
      hostOf(totalMib, overheadMib).reserve(key('a'), SANDBOX_DEFAULTS.memoryMib);
  },
);

test('what does not fit is refused with what would', () => {
  expect(() => hostOf(1_024, VM_OVERHEAD_MIB.tcg).reserve(key('a'), SANDBOX_DEFAULTS.memoryMib)).toThrow(
    /^scope a needs 896 MiB \(512 MiB of guest memory and 384 MiB for the VM itself\), the host has 819 MiB for VMs: lower memory_mb to 435 or less$/,
  );
  expect(() => hostOf(400, VM_OVERHEAD_MIB.tcg).reserve(key('a'), 128)).toThrow(
    /the host has 320 MiB for VMs: run on a host with more memory$/,
  );
});

test('VMs that live already count with what they take beside their guests', () => {
  const vm = (scope: string, alive: boolean) => ({ key: key(scope), alive, memoryMib: 512 });
  const living = [vm('a', true), vm('b', true), vm('dead', false)];
  // 80 % of 2,560 are 2,048 MiB.
  const capacity = createVmCapacity({
    overheadMib: 400,
    living,
    disk: () => ROOM,
    readMemory: () => ({ totalMib: 2_560, availableMib: 2_560 }),
  });
  expect(() => capacity.reserve(key('c'), 512)).toThrow(/1824 of 2048 MiB are given to 2 VMs/);
  capacity.reserve(key('a'), 512);
  capacity.release(key('b'));
  capacity.reserve(key('c'), 512);
});
