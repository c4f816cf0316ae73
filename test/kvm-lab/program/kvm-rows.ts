/** The rows of the program on KVM: those of the conformance table for each VMM, and rows about KVM itself. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { readHostFacts } from '../../../native/index.ts';
import { request, script, textOf } from '../../conformance/sandbox/behaviour.ts';
import { BEHAVIOURS } from '../../conformance/sandbox.ts';
import { COPIES } from './copies.ts';
import { CRASHES } from './copies-crash.ts';
import { DEATHS } from './deaths.ts';
import { FULL_DISK } from './full-disk.ts';
import { FULL_SAVES } from './full-saves.ts';
import { HOSTILE } from './hostile.ts';
import { HOSTILE_KERNEL } from './hostile-kernel.ts';
import { MEMORY } from './memory.ts';
import type { VmmRow } from './row.ts';
import { RUNS } from './runs.ts';
import { SHARED_DISK } from './shared-disk.ts';
import type { KvmTask } from './task.ts';

export const VMMS = ['qemu', 'vmm'] as const;
export type VmmName = (typeof VMMS)[number];

const PULSE_LIMIT_MS = 20_000;
const PULSE_POLL_MS = 100;

export const HARDWARE_KVM = 'the keeper finds hardware KVM';

/** It comes last, and is about all rows before it. */
export const NO_VM_LEFT = 'no row leaves a VM';

/** In the lab, the machine must also get its pulse: without it, a row may stand still. */
export async function requireHardwareKvm({ pieces, hasPulse }: KvmTask): Promise<void> {
  assert.equal((await readHostFacts(pieces.keeper)).kvm, 'hardware');
  if (!hasPulse) return;
  const first = await countReceived();
  const endAtMs = performance.now() + PULSE_LIMIT_MS;
  while ((await countReceived()) === first) {
    assert.ok(performance.now() < endAtMs, 'no pulse arrives at the second serial port');
    await sleep(PULSE_POLL_MS);
  }
}

/** Returns the number of bytes that the second serial port has received. */
async function countReceived(): Promise<number> {
  const ports = await readFile('/proc/tty/driver/serial', 'utf8');
  const received = /^1: .*?\brx:(\d+)/m.exec(ports)?.[1];
  // The kernel leaves the number out until the first byte.
  return Number(received ?? 0);
}

const COMMAND: VmmRow = {
  name: 'a command runs in a VM on KVM',
  async run({ conformance: c }) {
    const sandbox = await c.shared();
    assert.deepEqual([sandbox.facts.vmm, sandbox.facts.accelerator], [c.backend.name, 'kvm']);
    assert.equal(await textOf(sandbox, request('true')), '');
  },
};

/** The driver has read the identity, and mixes it into the random numbers of the kernel. */
const IDENTITY: VmmRow = {
  name: 'the kernel of the guest uses the identity of its VM',
  async run({ conformance: c }) {
    const look = 'cat /sys/bus/acpi/devices/VMGENCTR:00/hid; ls /sys/bus/*/drivers/vmgenid';
    const text = await textOf(await c.shared(), script(look));
    assert.deepEqual(text.split('\n').slice(0, 1), ['VMGENCTR']);
    assert.match(text, /^VMGENCTR:00$/m, 'the driver has the device');
  },
};

const TABLE = BEHAVIOURS.map(({ name, run }): VmmRow => ({ name, run: ({ conformance }) => run(conformance) }));
const ROWS: readonly VmmRow[] = [
  COMMAND,
  IDENTITY,
  ...COPIES,
  ...CRASHES,
  ...DEATHS,
  ...FULL_DISK,
  ...FULL_SAVES,
  ...HOSTILE,
  ...HOSTILE_KERNEL,
  ...MEMORY,
  ...TABLE,
  ...RUNS,
  SHARED_DISK,
];

/** Names rows for a VMM. */
export function listRows(vmm: VmmName, rows: readonly { readonly name: string }[]): readonly string[] {
  return rows.map(({ name }) => nameRow(vmm, name));
}

/** Names a row for a VMM. */
export function nameRow(vmm: VmmName, name: string): string {
  return `${vmm}: ${name}`;
}

/** Returns the row and its VMM. @throws Error if there is no such row */
export function findRow(full: string): { readonly vmm: VmmName; readonly row: VmmRow } {
  const vmm = VMMS.find((candidate) => full.startsWith(`${candidate}: `));
  const row = vmm === undefined ? undefined : ROWS.find(({ name }) => nameRow(vmm, name) === full);
  if (vmm === undefined || row === undefined) throw new Error(`no row is named "${full}"`);
  return { vmm, row };
}

export const BASICS: readonly VmmRow[] = [COMMAND];
/** Rows of `voidbox-vmm`; the machine of QEMU has no such device. */
export const IDENTITIES: readonly VmmRow[] = [IDENTITY];
export { COPIES } from './copies.ts';
export { CRASHES } from './copies-crash.ts';
export { DEATHS } from './deaths.ts';
export { FULL_DISK } from './full-disk.ts';
export { FULL_SAVES } from './full-saves.ts';
export { HOSTILE } from './hostile.ts';
export { HOSTILE_KERNEL } from './hostile-kernel.ts';
export { MEMORY } from './memory.ts';
export { RUNS } from './runs.ts';
export { SHARED_DISK } from './shared-disk.ts';
