import { describe, expect, it } from 'vitest';
import { CodedError } from '../domain/errors/coded-error.ts';
import type { SandboxPlan } from '../domain/plan/plan.ts';
import { readHostMemory, vmBudgetMib } from './host-memory.ts';
import { createSandboxBackends, selectBackend } from './select.ts';
import { vmRunDir } from './vm-key.ts';

const PLAN: SandboxPlan = { mode: 'auto', isolation: 'microvm', memoryMib: 256, vcpus: 1, diskMib: 256, mounts: [] };
const KEY = { runId: 'run-1', scope: 'fetch', generation: 2 };

describe('selection', () => {
  const missing = new CodedError('host/not-ready', 'no kernel: voidbox doctor');
  const backends = createSandboxBackends({ vmsDir: '/nowhere', keeper: '/nowhere/voidbox-vm', pieces: () => Promise.reject(missing) });

  it('gives a mock to a plan that names it, and to no other', () => {
    expect(selectBackend(backends, { ...PLAN, mode: 'mock' }).name).toBe('mock');
    expect(selectBackend(backends, { ...PLAN, mode: 'mock' }).isolation).toBe('none');
    for (const isolation of ['microvm', 'process', 'none'] as const) {
      expect(selectBackend(backends, { ...PLAN, isolation }).name).toBe('qemu');
      expect(selectBackend(backends, { ...PLAN, isolation, mode: 'qemu' }).name).toBe('qemu');
    }
  });

  it('refuses a backend that is weaker than the plan demands', () => {
    const weak = { ...backends, qemu: { ...backends.qemu, isolation: 'process' as const } };
    expect(() => selectBackend(weak, PLAN)).toThrow(expect.objectContaining({ code: 'host/isolation' }) as Error);
    expect(selectBackend(weak, { ...PLAN, isolation: 'process' }).name).toBe('qemu');
  });

  it('fails a launch with what is missing, and never degrades', async () => {
    await expect(selectBackend(backends, PLAN).launch(KEY, PLAN, AbortSignal.timeout(1_000))).rejects.toBe(missing);
  });
});

describe('keys', () => {
  it('have a run directory each, of 16 hexadecimal digits', () => {
    const dir = vmRunDir('/vms', KEY);
    expect(dir).toMatch(/^\/vms\/[0-9a-f]{16}$/);
    expect(vmRunDir('/vms', { ...KEY, generation: 3 })).not.toBe(dir);
  });
});

describe('memory of a host', () => {
  const meminfo = 'MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\n';
  const files =
    (extra: Record<string, string>) =>
    (path: string): string => {
      const text = { '/proc/meminfo': meminfo, ...extra }[path];
      if (text === undefined) throw new Error('ENOENT');
      return text;
    };

  it('is the machine’s', () => {
    expect(readHostMemory(files({}))).toEqual({ totalMib: 16_384, availableMib: 8_192 });
    expect(readHostMemory(files({ '/sys/fs/cgroup/memory.max': 'max\n' }))).toEqual({ totalMib: 16_384, availableMib: 8_192 });
  });

  it('is the cgroup’s where that is less', () => {
    const limited = files({ '/sys/fs/cgroup/memory.max': `${4096 * 1024 * 1024}\n`, '/sys/fs/cgroup/memory.current': `${1024 * 1024 * 1024}\n` });
    expect(readHostMemory(limited)).toEqual({ totalMib: 4_096, availableMib: 3_072 });
  });

  it('leaves the host a share', () => {
    expect(vmBudgetMib(4_096)).toBe(3_276);
    expect(vmBudgetMib(65_536)).toBe(63_488);
  });

  it('of this machine is read', () => {
    const { totalMib, availableMib } = readHostMemory();
    expect(totalMib).toBeGreaterThan(100);
    expect(availableMib).toBeLessThanOrEqual(totalMib);
  });
});
