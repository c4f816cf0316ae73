/** Selects the backend of a plan's sandbox. It never selects one that the plan did not request. */
import type { SandboxBackend } from '../activities/ports/sandbox.ts';
import { CodedError } from '../domain/errors/coded-error.ts';
import type { IsolationLevel, SandboxPlan } from '../domain/plan/plan.ts';
import type { HostFacts } from '../native/index.ts';
import { createAutoBackend } from './micro-vm/auto.ts';
import { createMockBackend } from './mock/backend.ts';
import { createNativeBackend } from './micro-vm/voidbox-vmm/backend.ts';
import { NATIVE_OVERHEAD_MIB } from './micro-vm/voidbox-vmm/voidbox-vmm.ts';
import { createQemuBackend, type QemuBackendOptions } from './micro-vm/qemu/backend.ts';
import { readOverheadMib } from './micro-vm/qemu/vm-overhead.ts';

const STRENGTH: Readonly<Record<IsolationLevel, number>> = { none: 0, process: 1, microvm: 2 };

export interface SandboxBackends {
  /** Takes one of the two VMMs for each VM. */
  readonly auto: SandboxBackend;
  readonly qemu: SandboxBackend;
  readonly vmm: SandboxBackend;
  readonly mock: SandboxBackend;
}

export function createSandboxBackends(options: QemuBackendOptions): SandboxBackends {
  return {
    auto: createAutoBackend(options),
    qemu: createQemuBackend(options),
    vmm: createNativeBackend(options),
    mock: createMockBackend(),
  };
}

/**
 * Returns the memory that a VM uses in addition to its guest's memory on a host with these facts: the most of any VMM.
 */
export function largestOverheadMib(host: HostFacts): number {
  return Math.max(readOverheadMib(host), NATIVE_OVERHEAD_MIB);
}

/**
 * Selects a backend. `auto` takes the VMM whose VMs end their first command sooner. `mock` runs no real program, so it isolates
 * nothing and records `none`; only a plan that names it gets it.
 * @throws CodedError `host/isolation` if the backend is weaker than the plan requires
 */
export function selectBackend(
  backends: SandboxBackends,
  plan: Pick<SandboxPlan, 'mode' | 'isolation'>,
): SandboxBackend {
  const backend = backends[plan.mode];
  if (plan.mode === 'mock') return backend;
  if (STRENGTH[backend.isolation] < STRENGTH[plan.isolation]) {
    throw new CodedError(
      'host/isolation',
      `the plan demands isolation ${plan.isolation}, ${backend.name} gives ${backend.isolation}: lower \`isolation\`, or see voidbox doctor for what this host lacks`,
    );
  }
  return backend;
}
