import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import {
  buildInitramfs,
  formatModuleLine,
  initramfsEntries,
  type InitramfsInputs,
  parseModuleLine,
} from './initramfs.ts';

const INPUTS: InitramfsInputs = {
  agent: Buffer.from('agent'),
  mockAgent: Buffer.from('mock'),
  busybox: Buffer.from('busybox'),
  applets: ['bin/ls', 'sbin/init', 'usr/bin/awk', 'linuxrc', 'bin/busybox'],
  modules: [
    { name: 'virtio_mmio.ko', content: Buffer.from('first'), device: null },
    { name: '9p.ko', content: Buffer.from('second'), device: 9 },
  ],
};

describe('buildInitramfs', () => {
  it('is reproducible: equal inputs give equal bytes', () => {
    const copy = { ...INPUTS, agent: Buffer.from('agent'), applets: [...INPUTS.applets].reverse() };
    expect(buildInitramfs(copy).equals(buildInitramfs(INPUTS))).toBe(true);
  });

  it('changes with the agent', () => {
    expect(buildInitramfs({ ...INPUTS, agent: Buffer.from('other') }).equals(buildInitramfs(INPUTS))).toBe(false);
  });

  it('is a gzipped archive', () => {
    expect(gunzipSync(buildInitramfs(INPUTS)).toString('ascii', 0, 6)).toBe('070701');
  });
});

describe('initramfsEntries', () => {
  const byPath = new Map(initramfsEntries(INPUTS).map((entry) => [entry.path, entry]));

  it('starts the agent, never an init of busybox', () => {
    expect(byPath.get('init')).toMatchObject({ kind: 'file', mode: 0o755, content: Buffer.from('agent') });
    expect(byPath.has('sbin/init')).toBe(false);
    expect(byPath.has('linuxrc')).toBe(false);
  });

  it('calls the mock agent by the names of those that it plays', () => {
    expect(byPath.get('usr/lib/voidbox/mock-agent')).toMatchObject({ kind: 'file', mode: 0o755 });
    for (const name of ['claude', 'codex'])
      expect(byPath.get(`usr/lib/voidbox/mock-agents/${name}`)).toMatchObject({
        kind: 'link',
        target: '/usr/lib/voidbox/mock-agent',
      });
  });

  it('links applets, a shell and env to busybox', () => {
    for (const path of ['bin/ls', 'usr/bin/awk', 'bin/sh', 'usr/bin/env'])
      expect(byPath.get(path)).toEqual({ kind: 'link', path, target: '/bin/busybox' });
  });

  it('lists modules in the order of loading, with the device that a module needs', () => {
    expect(byPath.get('lib/modules/voidbox.order')).toMatchObject({
      content: Buffer.from('virtio_mmio.ko\n9p.ko virtio=9\n'),
    });
    expect(byPath.get('lib/modules/9p.ko')).toMatchObject({ kind: 'file' });
  });

  it('holds no list of modules for a kernel that has everything built in', () => {
    expect(initramfsEntries({ ...INPUTS, modules: [] }).some((entry) => entry.path.startsWith('lib/modules/'))).toBe(
      false,
    );
  });

  it('knows the user that commands run as', () => {
    const passwd = byPath.get('etc/passwd');
    expect(passwd?.kind === 'file' ? Buffer.from(passwd.content).toString() : '').toContain(
      'sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh',
    );
  });
});

it.each([
  ['ext4.ko', null],
  ['vsock.ko', 19],
])('the line of the module %s with the device %s is read back', (name, device) => {
  expect(parseModuleLine(formatModuleLine({ name, device }))).toEqual({ name, device });
});
