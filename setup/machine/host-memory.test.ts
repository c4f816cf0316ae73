import { describe, expect, it } from 'vitest';
import { inspectHostMemory, readHostMemory, vmBudgetMib } from './host-memory.ts';

const MIB = 1024 * 1024;
const MEMINFO = 'MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\n';
const NO_LIMIT_V1 = '9223372036854771712\n';

/** Files of a host by path; reading another path throws, as `readFileSync` does. */
function host(files: Readonly<Record<string, string>>): (path: string) => string {
  return (path) => {
    const text = { '/proc/meminfo': MEMINFO, ...files }[path];
    if (text === undefined) throw new Error('ENOENT');
    return text;
  };
}

const mebibytes = (count: number): string => `${count * MIB}\n`;

const V2_MOUNT =
  '23 1 0:20 / /proc rw - proc proc rw\n30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n';
const V1_MOUNTS =
  '35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n';

describe('memory of a host', () => {
  it('is the machine’s if there are no cgroups, or none with a limit', () => {
    expect(readHostMemory(host({}))).toEqual({ totalMib: 16_384, availableMib: 8_192 });
    const unlimited = host({
      '/proc/self/cgroup': '0::/user.slice\n',
      '/proc/self/mountinfo': V2_MOUNT,
      '/sys/fs/cgroup/user.slice/memory.max': 'max\n',
      '/sys/fs/cgroup/user.slice/memory.current': mebibytes(5_000),
    });
    expect(readHostMemory(unlimited)).toEqual({ totalMib: 16_384, availableMib: 8_192 });
  });

  it("is the memory of this process's cgroup, not of the root cgroup", () => {
    const files = {
      '/proc/self/cgroup': '0::/system.slice/voidbox.service\n',
      '/proc/self/mountinfo': V2_MOUNT,
      '/sys/fs/cgroup/system.slice/memory.max': 'max\n',
      '/sys/fs/cgroup/system.slice/voidbox.service/memory.max': mebibytes(4_096),
      '/sys/fs/cgroup/system.slice/voidbox.service/memory.current': mebibytes(1_024),
      '/sys/fs/cgroup/system.slice/voidbox.service/memory.stat': `anon 1\ninactive_file ${200 * MIB}\nactive_file 1\n`,
    };
    expect(readHostMemory(host(files)), 'page cache can be had back').toEqual({ totalMib: 4_096, availableMib: 3_272 });
  });

  it('is the memory of the narrowest parent cgroup, at whichever level', () => {
    const files = {
      '/proc/self/cgroup': '0::/outer/inner\n',
      '/proc/self/mountinfo': V2_MOUNT,
      '/sys/fs/cgroup/outer/memory.max': mebibytes(2_048),
      '/sys/fs/cgroup/outer/memory.current': mebibytes(1_500),
      '/sys/fs/cgroup/outer/inner/memory.max': mebibytes(3_000),
      '/sys/fs/cgroup/outer/inner/memory.current': mebibytes(100),
    };
    expect(readHostMemory(host(files))).toEqual({ totalMib: 2_048, availableMib: 548 });
    const slowed = host({ ...files, '/sys/fs/cgroup/outer/inner/memory.high': mebibytes(1_000) });
    expect(readHostMemory(slowed), 'beyond memory.high all is slow').toEqual({ totalMib: 1_000, availableMib: 548 });
  });

  it('is the memory of a cgroup of version 1, even with an empty version 2', () => {
    const files = {
      '/proc/self/cgroup': '9:name=systemd:/\n4:memory:/process/a:b\n3:cpuset:/\n0::/\n',
      '/proc/self/mountinfo': V1_MOUNTS,
      '/sys/fs/cgroup/memory/memory.limit_in_bytes': NO_LIMIT_V1,
      '/sys/fs/cgroup/memory/memory.usage_in_bytes': mebibytes(9_000),
      '/sys/fs/cgroup/memory/process/memory.limit_in_bytes': mebibytes(1_024),
      '/sys/fs/cgroup/memory/process/memory.usage_in_bytes': mebibytes(600),
      '/sys/fs/cgroup/memory/process/memory.stat': `inactive_file 0\ntotal_inactive_file ${100 * MIB}\n`,
      '/sys/fs/cgroup/memory/process/a:b/memory.limit_in_bytes': NO_LIMIT_V1,
      '/sys/fs/cgroup/memory/process/a:b/memory.usage_in_bytes': mebibytes(10),
    };
    expect(readHostMemory(host(files))).toEqual({ totalMib: 1_024, availableMib: 524 });
  });

  it('is found in a container whose mount begins at its own cgroup', () => {
    const limits = { '/cg mount/memory.max': mebibytes(512), '/cg mount/memory.current': mebibytes(12) };
    const mount = (root: string): string => `30 23 0:26 ${root} /cg\\040mount rw - cgroup2 cgroup2 rw\n`;
    const cases = [
      ['0::/docker/abc\n', mount('/docker/abc')],
      ['0::/\n', mount('/')],
      ['0::/../other\n', mount('/')],
      ['0::/docker/abcdef\n', mount('/docker/abc')],
    ] as const;
    for (const [group, mounts] of cases) {
      expect(
        readHostMemory(host({ ...limits, '/proc/self/cgroup': group, '/proc/self/mountinfo': mounts })),
        group + mounts,
      ).toEqual({
        totalMib: 512,
        availableMib: 500,
      });
    }
  });

  it('the memory of a worker has the cgroup that limits it, or no cgroup', () => {
    const files = {
      '/proc/self/cgroup': '0::/\n',
      '/proc/self/mountinfo': V2_MOUNT,
      '/proc/71/cgroup': '0::/outer/inner\n',
      '/proc/71/mountinfo': V2_MOUNT,
      '/sys/fs/cgroup/outer/memory.max': mebibytes(2_048),
      '/sys/fs/cgroup/outer/memory.current': mebibytes(1_500),
      '/sys/fs/cgroup/outer/inner/memory.max': mebibytes(3_000),
    };
    expect(inspectHostMemory(71, host(files))).toEqual({
      totalMib: 2_048,
      availableMib: 548,
      limitedBy: '/sys/fs/cgroup/outer',
    });
    expect(inspectHostMemory('self', host(files))).toEqual({ totalMib: 16_384, availableMib: 8_192, limitedBy: null });
  });

  it('is never negative', () => {
    const over = host({
      '/proc/self/cgroup': '0::/\n',
      '/proc/self/mountinfo': V2_MOUNT,
      '/sys/fs/cgroup/memory.max': mebibytes(100),
      '/sys/fs/cgroup/memory.current': mebibytes(130),
    });
    expect(readHostMemory(over)).toEqual({ totalMib: 100, availableMib: 0 });
  });

  it('leaves the host a share', () => {
    expect(vmBudgetMib(4_096)).toBe(3_276);
    expect(vmBudgetMib(65_536)).toBe(63_488);
  });

  it('the memory of this machine is read', () => {
    const { totalMib, availableMib } = readHostMemory();
    expect(totalMib).toBeGreaterThan(100);
    expect(availableMib).toBeLessThanOrEqual(totalMib);
  });
});
