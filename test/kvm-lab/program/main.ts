/**
 * The program that runs rows on KVM, in the lab or on a host that has KVM: `TASK PORT`. The task is a file of JSON, and a
 * line for each row goes to the port.
 */
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BEHAVIOURS, type Conformance } from '../../conformance/sandbox.ts';
import { createRealHost } from '../../conformance/sandbox/real-host.ts';
import { createConformanceRig } from '../../conformance/sandbox/rig.ts';
import { type RowLine, writeRowLine } from '../rows.ts';
import { KVM_ROWS, NO_VM_LEFT } from './kvm-rows.ts';
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

function findRow(name: string): (c: Conformance) => Promise<void> {
  const ofKvm = KVM_ROWS.find((row) => row.name === name);
  if (ofKvm !== undefined) return (c) => ofKvm.run(c, task);
  const behaviour = BEHAVIOURS.find((row) => row.name === name);
  if (behaviour === undefined) throw new Error(`no row is named "${name}"`);
  return (c) => behaviour.run(c);
}

const host = await createRealHost(task.pieces, {
  bootTimeoutMs: task.bootTimeoutMs,
  snapshots: task.snapshots ? { dir: join(tmpdir(), 'snapshots'), maxMib: SNAPSHOTS_MAX_MIB } : 'off',
});
const rig = await createConformanceRig(host.backend, 'qemu');
for (const name of task.rows.filter((row) => row !== NO_VM_LEFT)) {
  await report(name, () => findRow(name)(rig));
  await rig.clear();
}
await rig.dispose();
await report(NO_VM_LEFT, async () => {
  const left = await host.dispose();
  if (left.length > 0) throw new Error(`rows left these VMs: ${left.join(', ')}`);
});
closeSync(output);
