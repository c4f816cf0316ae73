import { expect, test } from 'vitest';
import type { HostFacts } from '../../../native/index.ts';
import { createQemu, type QemuPieces } from './qemu.ts';

const KERNEL = { path: '/k/vmlinuz', kind: 'debian', uncompressedPath: '/k/vmlinux' } as const;

function launchOn(kvm: HostFacts['kvm'], kernel: QemuPieces['kernel'] = KERNEL) {
  const vmm = createQemu({ qemu: '/q', bwrap: '/b', mke2fs: '/m', kernel });
  return vmm.launchOn({ kvm, memoryTotalBytes: 1, memoryAvailableBytes: 1 });
}

test('an emulated CPU gets an uncompressed kernel if the host has one', () => {
  expect(launchOn('none').kernel).toEqual({ path: '/k/vmlinux', kind: 'debian' });
  expect(launchOn('none', { path: '/k/vmlinuz', kind: 'voidbox' }).kernel.path).toBe('/k/vmlinuz');
});

test('a real CPU gets the compressed kernel, which unpacks itself to a random address', () => {
  expect(launchOn('hardware').kernel.path).toBe('/k/vmlinuz');
});

test.each([
  ['hardware', 'kvm'],
  ['emulated', 'tcg'],
  ['none', 'tcg'],
  ['no-permission', 'tcg'],
] as const)('a host whose KVM is %s runs guests by %s', (kvm, accelerator) => {
  const { settings, overheadMib, bootTimeoutMs } = launchOn(kvm);
  expect(settings).toEqual({ name: 'qemu', program: '/q', accelerator, bwrap: '/b', mke2fs: '/m' });
  expect([overheadMib, bootTimeoutMs]).toEqual(accelerator === 'kvm' ? [160, 20_000] : [384, 45_000]);
});
