import { expect, test } from 'vitest';
import type { CheckpointRecord } from '../../domain/run/checkpoint.ts';
import { type FittingVm, requireFit } from './folder.ts';

const RECORD: CheckpointRecord = {
  v: 1,
  id: 'a'.repeat(64),
  name: 'deps',
  createdAtMs: 1_700_000_000_000,
  diskMib: 64,
  usedBytes: 4096,
  vmm: 'vmm',
  root: null,
  kernelKind: 'debian',
  withSecrets: false,
  memory: { links: ['0'.repeat(32)], memoryMib: 192, vcpus: 1, hasMounts: false },
};
const MEMORY = { vmm: 'vmm', memoryMib: 192, vcpus: 1, hasMounts: false };
const VM: FittingVm = { diskMib: 64, isMock: false, root: null, memory: MEMORY };

test('a VM continues with a memory only if its shape is the same, and the refusal has both values', () => {
  requireFit('scope x', RECORD, VM);
  const cases: readonly (readonly [FittingVm, string])[] = [
    [{ ...VM, memory: { ...MEMORY, vmm: 'qemu' } }, 'on the VMM vmm, the VM has qemu'],
    [{ ...VM, memory: { ...MEMORY, memoryMib: 256 } }, '192 MiB of memory, the VM 256 MiB; set memory_mb to 192'],
    [{ ...VM, memory: { ...MEMORY, vcpus: 2 } }, '1 vCPU, the VM 2; set vcpus to 1'],
    [{ ...VM, diskMib: 128 }, '64 MiB, that of the VM 128 MiB; set disk_mb to 64'],
    [{ ...VM, memory: { ...MEMORY, hasMounts: true } }, 'no read-only mounts, the VM read-only mounts'],
    [{ ...VM, root: 'dev' }, 'its image is base'],
  ];
  for (const [vm, why] of cases) {
    let error: unknown;
    try {
      requireFit('scope x', RECORD, vm);
    } catch (caught) {
      error = caught;
    }
    expect(error).toMatchObject({ code: 'vm/checkpoint-unfit', message: expect.stringContaining(why) as string });
  }
  // A checkpoint of a disk does not ask for it.
  requireFit('scope x', { ...RECORD, memory: undefined }, { ...VM, memory: { ...MEMORY, memoryMib: 256 } });
});
