import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { writeFirstRoot } from './first-root.ts';
import { labArguments } from './lab.ts';
import { choosePlace } from './start-on-kvm.ts';

const PIECES = {
  keeper: '/k',
  qemu: '/q',
  bwrap: '/b',
  mke2fs: '/m',
  kernel: { path: '/cache/vmlinuz', kind: 'debian', uncompressedPath: '/cache/vmlinux' },
  initramfs: '/i',
} as const;
const SOURCES = { busybox: '/busybox', modules: [{ name: 'kvm.ko', content: Buffer.from('k') }] };

test('a host with hardware KVM needs no lab', () => {
  expect(choosePlace({ kvm: 'hardware' }, 'arm64', PIECES, { ...SOURCES, modules: [] })).toEqual({ kind: 'host' });
});

test.each(['none', 'emulated', 'no-permission'] as const)('a host whose KVM is %s boots the lab', (kvm) => {
  const place = choosePlace({ kvm }, 'x64', PIECES, SOURCES);
  expect(place).toMatchObject({ kind: 'lab', pieces: { kernel: '/cache/vmlinux', qemu: '/q' } });
});

test('a host that can do neither gets the reason and the remedy', () => {
  expect(() => choosePlace({ kvm: 'none' }, 'arm64', PIECES, SOURCES)).toThrow(
    /the KVM of this host is "none", and the lab emulates an x86-64 CPU, while Node runs on arm64\. Run this on a host/,
  );
  expect(() => choosePlace({ kvm: 'emulated' }, 'x64', PIECES, { ...SOURCES, modules: [] })).toThrow(
    /\/cache\/vmlinuz has no modules of KVM beside it\. Unset VOIDBOX_KERNEL/,
  );
});

test('the lab cannot write to this machine', () => {
  const words = labArguments('/k', { root: '/r', console: '/c' }, 2_100_000);
  const shares = words.filter((word) => word.startsWith('local,'));
  expect(shares).toEqual([expect.stringContaining(',readonly=on,')]);
  expect(words.filter((word) => /^(?:-drive|-blockdev|-netdev|-virtfs)$/.test(word))).toEqual([]);
});

test('the time of the lab runs by the TSC of this machine', () => {
  const words = labArguments('/k', { root: '/r', console: '/c' }, 2_100_123);
  expect(words[words.indexOf('-append') + 1]).toMatch(/ tsc_early_khz=2100123$/);
});

test('a command with any characters is one that the shell of the lab reads back', () => {
  const command = ['printf', '%s\\n', "it's", '$HOME', 'a b', '`x`'];
  const root = writeFirstRoot({ ...SOURCES, busybox: Buffer.alloc(0), files: {}, command, variables: { V: "'" } });
  const text = root.toString('latin1');
  const script = text.slice(text.indexOf('export V='), text.indexOf(' </dev/null')).replace(/^cd .*$/m, '');
  expect(execFileSync('sh', ['-c', `${script}; echo "$V"`]).toString()).toBe("it's\n$HOME\na b\n`x`\n'\n");
});
