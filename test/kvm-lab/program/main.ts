/**
 * The program that runs rows on KVM, in the lab or on a host that has KVM: `TASK PORT`. The task is a file of JSON, and a
 * line for each row goes to the port.
 */
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createRealHost, type RealHost } from '../../conformance/sandbox/real-host.ts';
import { createConformanceRig, type ConformanceRig } from '../../conformance/sandbox/rig.ts';
import { type RowLine, writeRowLine } from '../rows.ts';
import { findRow, HARDWARE_KVM, NO_VM_LEFT, requireHardwareKvm, type VmmName } from './kvm-rows.ts';
import { closeProduct } from './runs.ts';
import type { KvmTask } from './task.ts';

const SNAPSHOTS_MAX_MIB = 512;

const [taskFile = '', port = ''] = process.argv.slice(2);
const task = JSON.parse(readFileSync(taskFile, 'utf8')) as KvmTask;
const output = openSync(port, 'w');

function say(line: RowLine): void {
  writeSync(output, writeRowLine(line));
}

async function report(row: string, run: () => Promise<void>): Promise<void> {
  const startedAtMs = performance.now();
  const tookMs = (): number => Math.round(performance.now() - startedAtMs);
  say({ kind: 'started', row });
  try {
    await run();
    say({ kind: 'passed', row, tookMs: tookMs() });
  } catch (error) {
    say({ kind: 'failed', row, tookMs: tookMs(), error: error instanceof Error ? error.stack! : String(error) });
  }
}

interface Backend {
  readonly host: RealHost;
  readonly rig: ConformanceRig;
}

const backends = new Map<VmmName, Backend>();

/** Returns the VMs of a VMM, which the first row that needs them makes. */
async function openBackend(vmm: VmmName): Promise<Backend> {
  const known = backends.get(vmm);
  if (known !== undefined) return known;
  if (vmm === 'vmm' && task.vmm === undefined) throw new Error('the task names no voidbox-vmm');
  const snapshots = { dir: join(tmpdir(), 'snapshots'), maxMib: SNAPSHOTS_MAX_MIB };
  const host = await createRealHost(task.pieces, {
    bootTimeoutMs: task.bootTimeoutMs,
    snapshots: task.snapshots ? snapshots : 'off',
    ...(vmm === 'vmm' ? { vmm: task.vmm! } : {}),
  });
  const rig = await createConformanceRig(host.backend, vmm);
  const backend = { host, rig };
  backends.set(vmm, backend);
  return backend;
}

/** Ends the VMs of the VMM that no later row needs: the lab has room for few of them. */
async function closeBackend(vmm: VmmName): Promise<readonly string[]> {
  const backend = backends.get(vmm);
  if (backend === undefined) return [];
  backends.delete(vmm);
  await backend.rig.dispose();
  return await backend.host.dispose();
}

const left: string[] = [];
const ofVmms = task.rows.filter((row) => row !== HARDWARE_KVM && row !== NO_VM_LEFT);
if (task.rows.includes(HARDWARE_KVM)) await report(HARDWARE_KVM, () => requireHardwareKvm(task));
for (const [index, name] of ofVmms.entries()) {
  const { vmm, row } = findRow(name);
  await report(name, async () => {
    const { host, rig } = await openBackend(vmm);
    await row.run({ conformance: rig, vmsDir: host.vmsDir, task });
  });
  await backends.get(vmm)?.rig.clear();
  const isLast = !ofVmms.slice(index + 1).some((later) => findRow(later).vmm === vmm);
  if (isLast) left.push(...(await closeBackend(vmm)));
}
left.push(...(await closeProduct()));
await report(NO_VM_LEFT, async () => {
  if (left.length > 0) throw new Error(`rows left these VMs: ${left.join(', ')}`);
});
closeSync(output);
