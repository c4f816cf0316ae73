/** The exports of `voidbox/sandbox`: micro-VMs for a process that uses them itself, without Temporal. */
export { Sandbox, type ConnectOptions, type ListOptions } from './sandbox.ts';
export { Command, type CommandEnd, type CommandInput, type CommandState } from './command.ts';
export type { ExecOptions, ExecResult, SpawnOptions } from './exec-options.ts';
export { Checkpoint, type CheckpointOptions } from './checkpoint.ts';
export type { LaunchOptions, SandboxMount } from './launch-options.ts';
export type { SandboxEgress, SandboxEgressRules, SandboxServices } from './egress.ts';
export type { NetworkEvent } from './network.ts';
export type { DoorCounts, DoorNotice, DoorTarget } from '../domain/run/door-notice.ts';
export type { SandboxInfo } from './vm-source.ts';
export type { SandboxFacts, VmUsage } from '../activities/ports/sandbox.ts';
export { CodedError } from '../domain/errors/coded-error.ts';
