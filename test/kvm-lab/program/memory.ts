/** A row about memory that a guest has freed: it returns to the host. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sandbox } from '../../../activities/ports/sandbox.ts';
import { readRunDir, vmRunDir } from '../../../native/index.ts';
import { script, textOf, withOwnVm } from '../../conformance/sandbox/behaviour.ts';
import { descendantsOf } from '../../rig/vms/snapshot-folder.ts';
import { isVmm } from './deaths.ts';
import type { VmmRow } from './row.ts';

const FILLED_MIB = 300;
/** The memory of the agent, its page cache, and pages between which others are in use. */
const LEFT_MIB = 60;
const RETURN_LIMIT_MS = 10_000;

/** `dd` has all bytes in its memory until the reader ends, a second after the first byte. */
const FILL = `dd if=/dev/zero bs=${FILLED_MIB}M count=1 2>/dev/null | { head -c 1 > /dev/null; grep VmRSS /proc/$(pidof dd)/status; sleep 1; }`;

function residentMib(pid: number): number {
  const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  assert.ok(line !== null);
  return Number(line[1]) / 1024;
}

async function returnFreed(sandbox: Sandbox, vmm: number): Promise<void> {
  const before = residentMib(vmm);
  let peak = before;
  let isDone = false;
  const filled = textOf(sandbox, script(FILL)).finally(() => (isDone = true));
  while (!isDone) {
    peak = Math.max(peak, residentMib(vmm));
    await Promise.race([filled, sleep(100)]);
  }
  assert.match(await filled, /^VmRSS:\s+3\d{5} kB/, 'the guest has filled its memory');
  const freedAt = Date.now();
  const tellRest = (): string =>
    `${before} MiB before, ${peak} at most, ${residentMib(vmm)} after ${Date.now() - freedAt} ms`;
  assert.ok(peak > before + FILLED_MIB - LEFT_MIB, tellRest());
  while (residentMib(vmm) > before + LEFT_MIB) {
    assert.ok(Date.now() < freedAt + RETURN_LIMIT_MS, tellRest());
    await sleep(100);
  }
}

/** The machine of QEMU has no such device. */
const RETURNS: VmmRow = {
  name: `${FILLED_MIB} MiB that a guest freed return to the host within ${RETURN_LIMIT_MS / 1000} s`,
  run: ({ conformance: c, vmsDir, task }) =>
    withOwnVm(c, { memoryMib: 512, diskMib: 64 }, async (sandbox, key) => {
      const { pid } = await readRunDir(task.pieces.keeper, vmRunDir(vmsDir, key));
      assert.ok(pid !== null);
      const vmm = descendantsOf(pid).find(isVmm);
      assert.ok(vmm !== undefined, 'a VMM runs below the keeper');
      await returnFreed(sandbox, vmm);
    }),
};

export const MEMORY: readonly VmmRow[] = [RETURNS];
