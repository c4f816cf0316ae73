import { expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { HostFacts } from '../../native/index.ts';
import { createAutoVmm, useAutoVmm } from './auto.ts';
import { createQemu } from './qemu/qemu.ts';
import { createNativeVmm } from './voidbox-vmm/voidbox-vmm.ts';

const PIECES = {
  qemu: '/qemu',
  bwrap: '/bwrap',
  mke2fs: '/mke2fs',
  kernel: { path: '/kernel', kind: 'debian' },
} as const;

async function choose(
  kvm: HostFacts['kvm'],
  vcpus = 1,
  findProgram = (): Promise<string> => Promise.resolve('/bin/voidbox-vmm'),
): Promise<string> {
  const auto = createAutoVmm(createNativeVmm(PIECES, findProgram), createQemu(PIECES));
  const { settings } = await auto.launchOn({ kvm, memoryTotalBytes: 0, memoryAvailableBytes: 0 }, { vcpus });
  return settings.name;
}

test('`auto` takes the VMM of Voidbox on hardware KVM, and QEMU on other hosts', async () => {
  expect(await choose('hardware')).toBe('vmm');
  for (const kvm of ['emulated', 'none', 'no-permission'] as const) expect(await choose(kvm)).toBe('qemu');
});

test('`auto` takes QEMU for more CPUs than the VMM of Voidbox gives a VM', async () => {
  expect([await choose('hardware', 32), await choose('hardware', 33)]).toEqual(['vmm', 'qemu']);
});

test('`auto` takes QEMU on a host that lacks the program of the other VMM, and passes on other errors', async () => {
  const missing = new CodedError('host/not-ready', 'voidbox-vmm is not built');
  expect(await choose('hardware', 1, () => Promise.reject(missing))).toBe('qemu');
  const full = new CodedError('host/disk-full', 'no room');
  await expect(choose('hardware', 1, () => Promise.reject(full))).rejects.toBe(full);
});

test('`auto` takes QEMU for a kernel that a user names, which may lack drivers of the other VMM', async () => {
  const find = async (isOfSetup: boolean): Promise<string> => {
    const { pieces } = useAutoVmm({
      vmsDir: '/vms',
      keeper: '/keeper',
      hostMemoryMib: () => 1024,
      pieces: () =>
        Promise.resolve({ ...PIECES, keeper: '/k', initramfs: '/i', kernel: { ...PIECES.kernel, isOfSetup } }),
      extra: () => Promise.resolve('/bin/voidbox-vmm'),
    });
    const { vmm } = await pieces();
    const host = { kvm: 'hardware', memoryTotalBytes: 0, memoryAvailableBytes: 0 } as const;
    return (await vmm.launchOn(host, { vcpus: 1 })).settings.name;
  };
  expect([await find(true), await find(false)]).toEqual(['vmm', 'qemu']);
});
