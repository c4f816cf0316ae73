/** The sandboxes of a host as a worker uses them: chosen by plan, listed, released by key alone. */
import { join } from 'node:path';
import type { SandboxBackend, VmKey } from '../activities/ports.ts';
import type { SandboxPlan } from '../domain/plan/plan.ts';
import { createSandboxBackends, selectBackend } from '../sandbox/select.ts';
import { sweepVms, type SweptHostVm } from '../sandbox/sweep.ts';
import type { HostPieces } from '../setup/host-pieces.ts';

export interface HostSandboxes {
  readonly backendFor: (plan: SandboxPlan) => SandboxBackend;
  /** Ends a VM whatever made it. */
  readonly release: (key: VmKey) => Promise<void>;
  /** Removes what dead VMs left and lists the rest. */
  readonly sweep: () => Promise<readonly SweptHostVm[]>;
}

export interface HostSandboxOptions {
  readonly keeper: string;
  /** Asked for when the first VM is wanted. @throws CodedError `host/not-ready` */
  readonly pieces: () => Promise<HostPieces>;
  readonly stateDir: string;
  /** Null is the backend's own limit. */
  readonly bootTimeoutMs: number | null;
  /** Null is the keeper's own limit. */
  readonly diskFullLimitMs: number | null;
}

export function createHostSandboxes({ keeper, pieces, stateDir, bootTimeoutMs, diskFullLimitMs }: HostSandboxOptions): HostSandboxes {
  const vmsDir = join(stateDir, 'vms');
  const backends = createSandboxBackends({
    vmsDir,
    keeper,
    pieces,
    ...(bootTimeoutMs === null ? {} : { bootTimeoutMs }),
    ...(diskFullLimitMs === null ? {} : { diskFullLimitMs }),
  });
  return {
    backendFor: (plan) => selectBackend(backends, plan),
    release: (key) => backends.qemu.release(key),
    sweep: () => sweepVms(keeper, vmsDir),
  };
}
