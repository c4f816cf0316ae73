import { expect, test } from 'vitest';
import { createNativeVmm, NATIVE_OVERHEAD_MIB } from './voidbox-vmm.ts';

const KERNEL = { path: '/k/vmlinuz', kind: 'debian', uncompressedPath: '/k/vmlinux' } as const;
const MEMORY = { memoryTotalBytes: 1, memoryAvailableBytes: 1 };

test('a host with hardware KVM runs voidbox-vmm with an unpacked kernel and its server of folders', async () => {
  const vmm = createNativeVmm({ mke2fs: '/m', kernel: KERNEL }, () => Promise.resolve('/cache/voidbox-vmm'));
  expect(await vmm.launchOn({ kvm: 'hardware', ...MEMORY })).toEqual({
    settings: {
      name: 'vmm',
      program: '/cache/voidbox-vmm',
      folders: '/cache/voidbox-folders',
      mke2fs: '/m',
      cpu: 'host',
    },
    kernel: { path: '/k/vmlinux', kind: 'debian' },
    overheadMib: NATIVE_OVERHEAD_MIB,
    bootTimeoutMs: 20_000,
  });
});

test('the keeper gets the CPU template of the host', async () => {
  const find = (): Promise<string> => Promise.resolve('/cache/voidbox-vmm');
  const vmm = createNativeVmm({ mke2fs: '/m', kernel: KERNEL }, find, 'portable');
  expect((await vmm.launchOn({ kvm: 'hardware', ...MEMORY })).settings).toMatchObject({ cpu: 'portable' });
});

test('VMs share the root disk if their kernel has the drivers', async () => {
  const find = (): Promise<string> => Promise.resolve('/cache/voidbox-vmm');
  const vmm = createNativeVmm({ mke2fs: '/m', kernel: { ...KERNEL, isOfSetup: true } }, find);
  expect((await vmm.launchOn({ kvm: 'hardware', ...MEMORY })).settings).toMatchObject({ pmem: true });
});

test.each([
  ['emulated', 'vmx or svm'],
  ['none', 'kvm_amd'],
  ['no-permission', 'usermod -aG kvm'],
] as const)('a host whose KVM is %s is not ready, and is asked for no program', async (kvm, remedy) => {
  const vmm = createNativeVmm({ mke2fs: '/m', kernel: KERNEL }, () => {
    throw new Error('the program was asked for');
  });
  await expect(vmm.launchOn({ kvm, ...MEMORY })).rejects.toMatchObject({
    code: 'host/not-ready',
    message: expect.stringContaining(remedy) as string,
  });
});
