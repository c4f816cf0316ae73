import { expect, test } from 'vitest';
import { kernelFor } from './launch.ts';

const kernel = { path: '/k/vmlinuz', kind: 'debian', uncompressedPath: '/k/vmlinux' } as const;

test('an emulated CPU gets the kernel that it need not unpack, where there is one', () => {
  expect(kernelFor('tcg', { kernel })).toBe('/k/vmlinux');
  expect(kernelFor('tcg', { kernel: { path: '/k/vmlinuz', kind: 'voidbox' } })).toBe('/k/vmlinuz');
});

test('a real CPU gets the one that lies at an address of chance', () => {
  expect(kernelFor('kvm', { kernel })).toBe('/k/vmlinuz');
});
