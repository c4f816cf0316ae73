/** Which backend a plan's sandbox gets. Nothing is ever chosen that the plan did not ask for. */
import type { SandboxBackend } from '../activities/ports/sandbox.ts';
import { CodedError } from '../domain/errors/coded-error.ts';
import type { IsolationLevel, SandboxPlan } from '../domain/plan/plan.ts';
import type { HostFacts } from '../native/index.ts';
import { createMockBackend } from './mock/backend.ts';
import { createQemuBackend, type QemuBackendOptions } from './micro-vm/qemu/backend.ts';
import { readOverheadMib } from './micro-vm/qemu/vm-overhead.ts';

const STRENGTH: Readonly<Record<IsolationLevel, number>> = { none: 0, process: 1, microvm: 2 };

export interface SandboxBackends {
  readonly qemu: SandboxBackend;
  readonly mock: SandboxBackend;
}

export function createSandboxBackends(options: QemuBackendOptions): SandboxBackends {
  return { qemu: createQemuBackend(options), mock: createMockBackend() };
}

/** Memory that a VM takes from a host with these facts, beside its guest's: that of the VMM that takes most. */
export function largestOverheadMib(host: HostFacts): number {
  return readOverheadMib(host);
}

/**
 * `auto` is the best real backend, which is `qemu`. `mock` runs nothing real, so it has nothing to isolate
 * and records `none`; only a plan that names it gets it.
 * @throws CodedError `host/isolation` when the backend is weaker than the plan demands
 */
export function selectBackend(
  backends: SandboxBackends,
  plan: Pick<SandboxPlan, 'mode' | 'isolation'>,
): SandboxBackend {
  if (plan.mode === 'mock') return backends.mock;
  const backend = backends.qemu;
  if (STRENGTH[backend.isolation] < STRENGTH[plan.isolation]) {
    throw new CodedError(
      'host/isolation',
      `the plan demands isolation ${plan.isolation}, ${backend.name} gives ${backend.isolation}: lower \`isolation\`, or see voidbox doctor for what this host lacks`,
    );
  }
  return backend;
}
