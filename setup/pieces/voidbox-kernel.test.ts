import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { findRefusedOptions } from './voidbox-kernel.ts';

describe('findRefusedOptions', () => {
  it('names options that did not take, in either direction', () => {
    const fragment = ['# a comment', 'CONFIG_A=y', 'CONFIG_B=y', 'CONFIG_C=n', 'CONFIG_D=n', 'CONFIG_NR_CPUS=32'].join(
      '\n',
    );
    const resulting = ['CONFIG_A=y', '# CONFIG_B is not set', 'CONFIG_C=y', 'CONFIG_NR_CPUS=8'].join('\n');
    expect(findRefusedOptions(fragment, resulting)).toEqual(['CONFIG_B=y', 'CONFIG_C=n', 'CONFIG_NR_CPUS=32']);
  });
});

describe('the configuration of the guest kernel', () => {
  const config = readFileSync(new URL('../../guest/kernel/voidbox.config', import.meta.url), 'utf8');

  // docs/reference/guest.md promises each option, and `make tinyconfig` leaves it out.
  it.each([
    ['user namespaces (`unshare -Ur`)', 'USER_NS'],
    ['other namespaces', 'NAMESPACES'],
    ['limits of memory and processes', 'MEMCG'],
    ['limits of memory and processes', 'CGROUP_PIDS'],
    ['the scratch disk', 'EXT4_FS'],
    ['the layer over an image', 'OVERLAY_FS'],
    ['mounts of the host', 'NET_9P_VIRTIO'],
    ['the loopback of the door', 'INET'],
    ['`/dev/shm`', 'TMPFS'],
    ['`/dev/pts`', 'UNIX98_PTYS'],
  ])('has what %s needs: %s', (_, option) => {
    expect(config.split('\n')).toContain(`CONFIG_${option}=y`);
  });
});
