/** The rows of the program on KVM: those of the conformance table for each VMM, and rows about KVM itself. */
import assert from 'node:assert/strict';
import { readHostFacts } from '../../../native/index.ts';
import { request, textOf } from '../../conformance/sandbox/behaviour.ts';
import { BEHAVIOURS } from '../../conformance/sandbox.ts';
import { COPIES } from './copies.ts';
import { DEATHS } from './deaths.ts';
import { HOSTILE } from './hostile.ts';
import type { VmmRow } from './row.ts';
import { RUNS } from './runs.ts';
import type { KvmTask } from './task.ts';

export const VMMS = ['qemu', 'vmm'] as const;
export type VmmName = (typeof VMMS)[number];

export const HARDWARE_KVM = 'the keeper finds hardware KVM';

/** It comes last, and is about all rows before it. */
export const NO_VM_LEFT = 'no row leaves a VM';

export async function requireHardwareKvm({ pieces }: KvmTask): Promise<void> {
  assert.equal((await readHostFacts(pieces.keeper)).kvm, 'hardware');
}

const COMMAND: VmmRow = {
  name: 'a command runs in a VM on KVM',
  async run({ conformance: c }) {
    const sandbox = await c.shared();
    assert.deepEqual([sandbox.facts.vmm, sandbox.facts.accelerator], [c.backend.name, 'kvm']);
    assert.equal(await textOf(sandbox, request('true')), '');
  },
};

const TABLE = BEHAVIOURS.map(({ name, run }): VmmRow => ({ name, run: ({ conformance }) => run(conformance) }));
const ROWS: readonly VmmRow[] = [COMMAND, ...COPIES, ...DEATHS, ...HOSTILE, ...TABLE, ...RUNS];

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
export { COPIES } from './copies.ts';
export { DEATHS } from './deaths.ts';
export { HOSTILE } from './hostile.ts';
export { RUNS } from './runs.ts';
