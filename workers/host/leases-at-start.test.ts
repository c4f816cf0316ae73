import { expect, test } from 'vitest';
import type { Leases } from '../../activities/ports/leases.ts';
import { SANDBOX_DEFAULTS } from '../../domain/plan/defaults.ts';
import { VM_OVERHEAD_MIB } from '../../sandbox/micro-vm/qemu/vm-overhead.ts';
import { leasesAtStart } from './leases-at-start.ts';

const key = (scope: string) => ({ runId: 'r', scope, instance: [], generation: 0 });
const need = (memoryMib: number) => ({ memoryMib, vcpus: 1, diskMib: 64 });
const HOST = { placement: { hostId: 'h', hostQueue: 'q' }, disk: () => ({ availableBytes: 1, floorBytes: 1 }) };

function hostOf(totalMib: number, overheadMib: number, availableMib = totalMib): Promise<Leases> {
  return leasesAtStart({ ...HOST, overheadMib, living: [], readMemory: () => ({ totalMib, availableMib }) });
}

test.each(Object.entries(VM_OVERHEAD_MIB))(
  'a host with little memory runs a spec that says nothing of memory (%s)',
  async (_, overheadMib) => {
    for (const totalMib of [1_200, 1_536, 2_048])
      await (await hostOf(totalMib, overheadMib)).grant(key('a'), SANDBOX_DEFAULTS);
  },
);

test('a request that does not fit is rejected, and the error says what would fit', async () => {
  await expect((await hostOf(1_024, VM_OVERHEAD_MIB.tcg)).grant(key('a'), SANDBOX_DEFAULTS)).rejects.toThrow(
    /^scope a needs 896 MiB \(512 MiB of guest memory and 384 MiB for the VM itself\), the host has 819 MiB for VMs: lower memory_mb to 435 or less$/,
  );
  await expect((await hostOf(400, VM_OVERHEAD_MIB.tcg)).grant(key('a'), need(128))).rejects.toThrow(
    /the host has 320 MiB for VMs: run on a host with more memory$/,
  );
});

test('VMs that live already count with what they take beside their guests', async () => {
  const vm = (scope: string, alive: boolean) => ({ key: key(scope), alive, need: need(512) });
  // 80 % of 2,560 are 2,048 MiB.
  const leases = await leasesAtStart({
    ...HOST,
    overheadMib: 400,
    living: [vm('a', true), vm('b', true), vm('dead', false)],
    readMemory: () => ({ totalMib: 2_560, availableMib: 2_560 }),
  });
  await expect(leases.grant(key('c'), need(512))).rejects.toThrow(/1824 of 2048 MiB are given to 2 VMs/);
  await leases.grant(key('a'), need(512));
  await leases.release(key('b'));
  await leases.grant(key('c'), need(512));
});
