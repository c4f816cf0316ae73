import { describe, expect, it } from 'vitest';
import { CodedError } from '../domain/errors/coded-error.ts';
import type { LaunchSpec } from '../activities/ports/sandbox.ts';
import { createSandboxBackends, selectBackend } from './select.ts';
import { vmRunDir } from '../native/index.ts';

const PLAN: LaunchSpec = { mode: 'auto', isolation: 'microvm', memoryMib: 256, vcpus: 1, diskMib: 256, mounts: [] };
const KEY = { runId: 'run-1', scope: 'fetch', instance: [], generation: 2 };

describe('selection', () => {
  const missing = new CodedError('host/not-ready', 'no kernel: voidbox doctor');
  const backends = createSandboxBackends({
    vmsDir: '/nowhere',
    keeper: '/nowhere/voidbox-vm',
    hostMemoryMib: () => 1024,
    pieces: () => Promise.reject(missing),
    extra: () => Promise.reject(missing),
  });

  it('gives a mock to a plan that names it, and to no other', () => {
    expect(selectBackend(backends, { ...PLAN, mode: 'mock' }).name).toBe('mock');
    expect(selectBackend(backends, { ...PLAN, mode: 'mock' }).isolation).toBe('none');
    for (const isolation of ['microvm', 'process', 'none'] as const) {
      expect(selectBackend(backends, { ...PLAN, isolation }).name).toBe('auto');
      expect(selectBackend(backends, { ...PLAN, isolation, mode: 'qemu' }).name).toBe('qemu');
    }
  });

  it('gives a plan that names the VMM of Voidbox no other VMM', () => {
    expect(selectBackend(backends, { ...PLAN, mode: 'vmm' }).name).toBe('vmm');
    expect(selectBackend(backends, { ...PLAN, mode: 'vmm' }).isolation).toBe('microvm');
  });

  it('refuses a backend that is weaker than the plan demands', () => {
    const weak = { ...backends, auto: { ...backends.auto, isolation: 'process' as const } };
    expect(() => selectBackend(weak, PLAN)).toThrow(expect.objectContaining({ code: 'host/isolation' }) as Error);
    expect(selectBackend(weak, { ...PLAN, isolation: 'process' }).name).toBe('auto');
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
