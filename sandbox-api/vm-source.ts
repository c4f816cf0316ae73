/** The sources of VMs for direct use: real VMs of a state folder, or mocks in this process. */
import { randomBytes } from 'node:crypto';
import type { Sandbox as Vm } from '../activities/ports/sandbox.ts';
import type { DirectVm } from '../domain/run/direct-vm.ts';
import type { LaunchChoice } from './launch-options.ts';

/** The entry of a VM in `Sandbox.list()`. */
export interface SandboxInfo extends DirectVm {
  readonly mode: 'qemu' | 'vmm' | 'mock';
  readonly memoryMib: number;
  readonly vcpus: number;
}

export interface OpenedVm {
  readonly vm: Vm;
  /** The notices of its network door from a byte on, until the VM has ended; the stream may break off earlier. */
  readonly notices: (offset: number, signal: AbortSignal) => AsyncIterable<Uint8Array>;
  readonly info: SandboxInfo;
}

export interface VmSource {
  launch(choice: LaunchChoice, signal: AbortSignal): Promise<OpenedVm>;
  /** Takes the VM over from its owner; null if no VM with this id is alive. */
  connect(id: string, signal: AbortSignal): Promise<OpenedVm | null>;
  /** Lists the VMs that are alive. */
  list(): Promise<readonly SandboxInfo[]>;
}

export function newSandboxId(): string {
  return `sb-${randomBytes(10).toString('hex')}`;
}

/** The note in the VM's run directory for other processes. */
export function noteOf(id: string, choice: LaunchChoice): DirectVm {
  return {
    id,
    name: choice.name,
    keepTtlMs: choice.keepTtlMs,
    launchedByPid: process.pid,
    launchedAtMs: Date.now(),
    hasSecrets: choice.hasSecrets,
  };
}
