/**
 * A backend in memory, for tests and for plans that say `mode: mock`. It keeps the port's promises about
 * keys, fences, offsets and limits, and simulates the programs of programs.ts; it runs nothing real.
 */
import type { SandboxBackend, VmKey } from '../../activities/ports.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { vmKeyText } from '../vm-key.ts';
import { copyHostTreeIn } from './host-tree.ts';
import { MOCK_PROGRAMS, type MockProgram } from './programs.ts';
import { createMockSandbox } from './sandbox.ts';
import { MockVm } from './vm.ts';

export interface MockBackendOptions {
  /** More simulated programs, by name; they replace those of the same name. */
  readonly programs?: Readonly<Record<string, MockProgram>>;
  /** How long a launch takes. */
  readonly bootMs?: number;
}

export interface MockBackend extends SandboxBackend {
  /** Lets a VM die as if its keeper had been killed. */
  lose(key: VmKey): void;
  /** Keys of the VMs that are alive. */
  alive(): readonly string[];
}

export function createMockBackend(options: MockBackendOptions = {}): MockBackend {
  const vms = new Map<string, MockVm>();
  const programs = { ...MOCK_PROGRAMS, ...options.programs };
  const bootMs = options.bootMs ?? 0;

  return {
    name: 'mock',
    isolation: 'none',

    async launch(key, plan, signal) {
      signal.throwIfAborted();
      const name = vmKeyText(key);
      const found = vms.get(name);
      if (found !== undefined) {
        found.check();
        return createMockSandbox(found, found.attach(), true);
      }
      const vm = new MockVm(name, programs, bootMs);
      vms.set(name, vm);
      if (bootMs > 0) await new Promise((resolve) => setTimeout(resolve, bootMs));
      for (const mount of plan.mounts) if (mount.mode === 'ro') await copyHostTreeIn(vm.files, mount.hostPath, mount.guestPath);
      signal.throwIfAborted();
      return createMockSandbox(vm, vm.attach(), false);
    },

    async release(key) {
      const name = vmKeyText(key);
      const vm = vms.get(name) ?? new MockVm(name, programs, bootMs);
      // Kept though it never was: a later launch of the key must not make one.
      vms.set(name, vm);
      vm.end(new CodedError('vm/lost', `mock VM ${name} was released`));
    },

    lose(key) {
      vms.get(vmKeyText(key))?.end(new CodedError('vm/lost', `mock VM ${vmKeyText(key)} was lost`));
    },

    alive: () => [...vms.values()].filter((vm) => vm.isAlive).map((vm) => vm.name),
  };
}
