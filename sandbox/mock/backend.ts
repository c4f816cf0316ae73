/**
 * A backend in memory, for tests and for plans that say `mode: mock`. It keeps the port's promises about
 * keys, fences, offsets and limits, and simulates the programs of programs.ts; it runs nothing real.
 */
import type { SandboxBackend, VmKey } from '../../activities/ports/sandbox.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { vmKeyText } from '../../domain/run/vm-key.ts';
import { MOCK_PROGRAMS, type MockProgram } from './programs.ts';
import { EndedVms } from './ended-vms.ts';
import { copyHostTreeIn } from './host-tree.ts';
import { createMockSandbox } from './sandbox.ts';
import { MockVm } from './vm.ts';

export interface MockBackendOptions {
  /** More simulated programs, by name; they replace those of the same name. */
  readonly programs?: Readonly<Record<string, MockProgram>>;
  /** How long a launch takes. */
  readonly bootMs?: number;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

export interface MockBackend extends SandboxBackend {
  /** Lets a VM die as if its keeper had been killed. */
  lose(key: VmKey): void;
  /** Keys of the VMs that are alive. */
  alive(): readonly string[];
  /** How many ended VMs it still knows. */
  remembered(): number;
}

export function createMockBackend(options: MockBackendOptions = {}): MockBackend {
  /** Those that are alive: what an ended one held is free at once. */
  const vms = new Map<string, MockVm>();
  const ended = new EndedVms(options.now ?? Date.now);
  const programs = { ...MOCK_PROGRAMS, ...options.programs };
  const bootMs = options.bootMs ?? 0;

  return {
    name: 'mock',
    isolation: 'none',

    async launch(key, spec, signal) {
      signal.throwIfAborted();
      const name = vmKeyText(key);
      const end = ended.find(name);
      if (end !== null) throw new CodedError('vm/lost', end);
      const found = vms.get(name);
      if (found !== undefined) return createMockSandbox(found, found.attach(), true);
      const vm = new MockVm(name, programs, bootMs, (message) => {
        vms.delete(name);
        ended.add(name, message);
      });
      vms.set(name, vm);
      if (bootMs > 0) await new Promise((resolve) => setTimeout(resolve, bootMs));
      for (const mount of spec.mounts)
        if (mount.mode === 'ro') await copyHostTreeIn(vm.files, mount.hostPath, mount.guestPath);
      signal.throwIfAborted();
      return createMockSandbox(vm, vm.attach(), false);
    },

    async release(key) {
      const name = vmKeyText(key);
      const message = `mock VM ${name} was released`;
      const vm = vms.get(name);
      if (vm !== undefined) vm.end(message);
      // Kept though it never was: a later launch of the key must not make one.
      else if (ended.find(name) === null) ended.add(name, message);
    },

    // A mock has no door.
    notices: async () => new Uint8Array(0),

    lose(key) {
      vms.get(vmKeyText(key))?.end(`mock VM ${vmKeyText(key)} was lost`);
    },

    alive: () => [...vms.keys()],
    remembered: () => ended.size,
  };
}
