/**
 * A backend in memory, for tests and for plans with `mode: mock`. It keeps the port's promises about keys, fences,
 * offsets and limits, and simulates the programs of programs.ts; it runs no real program.
 */
import type { LaunchSpec, SandboxBackend, VmKey } from '../../activities/ports/sandbox.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import { MOCK_PROGRAMS, type MockProgram } from './programs.ts';
import { loadMockDisk } from './disk.ts';
import { EndedVms } from './ended-vms.ts';
import { copyHostTreeIn } from './host-tree.ts';
import { createMockSandbox } from './sandbox.ts';
import { type MockDisk, MockVm } from './vm.ts';

export interface MockBackendOptions {
  /** Additional simulated programs, by name; they replace programs of the same name. */
  readonly programs?: Readonly<Record<string, MockProgram>>;
  /** The time that a launch takes. */
  readonly bootMs?: number;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

export interface MockBackend extends SandboxBackend {
  /** Ends a VM as if its keeper had been killed. */
  lose(key: VmKey): void;
  /** Returns keys of the living VMs. */
  alive(): readonly string[];
  /** Returns the number of ended VMs that it still remembers. */
  remembered(): number;
}

function describeDisk({ diskMib, image, mounts }: LaunchSpec): MockDisk {
  const root = image === undefined ? null : image.kind === 'dev' ? 'dev' : image.sha256;
  return { diskMib, root, mountPaths: mounts.map(({ guestPath }) => guestPath) };
}

export function createMockBackend(options: MockBackendOptions = {}): MockBackend {
  /** Only living VMs: the memory of an ended one is freed at once. */
  const vms = new Map<string, MockVm>();
  const ended = new EndedVms(options.now ?? Date.now);
  const programs = { ...MOCK_PROGRAMS, ...options.programs };
  const bootMs = options.bootMs ?? 0;

  return {
    name: 'mock',
    isolation: 'none',

    async launch(key, spec, signal) {
      signal.throwIfAborted();
      const name = formatVmKey(key);
      const end = ended.find(name);
      if (end !== null) throw new CodedError('vm/lost', end);
      const found = vms.get(name);
      if (found !== undefined) return createMockSandbox(found, found.attach(), true);
      const vm = new MockVm(name, describeDisk(spec), programs, bootMs, (message) => {
        vms.delete(name);
        ended.add(name, message);
      });
      vms.set(name, vm);
      try {
        if (spec.from !== undefined) await loadMockDisk(vm, spec.from);
      } catch (error) {
        // The VM never started, so its key can be launched again.
        vms.delete(name);
        throw error;
      }
      if (bootMs > 0) await new Promise((resolve) => setTimeout(resolve, bootMs));
      for (const mount of spec.mounts)
        if (mount.mode === 'ro') await copyHostTreeIn(vm.files, mount.hostPath, mount.guestPath);
      signal.throwIfAborted();
      return createMockSandbox(vm, vm.attach(), false);
    },

    async release(key) {
      const name = formatVmKey(key);
      const message = `mock VM ${name} was released`;
      const vm = vms.get(name);
      if (vm !== undefined) vm.end(message);
      // The key is remembered although it had no VM, so that a later launch of it fails.
      else if (ended.find(name) === null) ended.add(name, message);
    },

    // A mock has no door.
    notices: async () => new Uint8Array(0),

    lose(key) {
      vms.get(formatVmKey(key))?.end(`mock VM ${formatVmKey(key)} was lost`);
    },

    alive: () => [...vms.keys()],
    remembered: () => ended.size,
  };
}
