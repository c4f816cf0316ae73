/** The whole conformance table in VMs of each VMM on a real /dev/kvm, hostile guests, deaths, and runs of the product. */
import { afterAll, beforeAll, describe, test } from 'vitest';
import { BEHAVIOURS } from '../conformance/sandbox.ts';
import { type KvmResults, runRowsOnKvm, selectRows } from './prepare.ts';
import {
  BASICS,
  COPIES,
  CRASHES,
  DEATHS,
  FULL_DISK,
  FULL_SAVES,
  HARDWARE_KVM,
  HOSTILE,
  HOSTILE_KERNEL,
  IDENTITIES,
  listRows,
  MEMORY,
  SHARED_DISK,
  NO_VM_LEFT,
  RUNS,
  VMMS,
} from './program/kvm-rows.ts';

/** A row of a busy lab takes minutes. */
const LIMITS = { wholeMs: 28 * 60_000, silenceMs: 8 * 60_000 };

/** The first run compiles `voidbox-vmm`. */
const COMPILE_LIMIT_MS = 600_000;

function runInOneLab(title: string, snapshots: boolean, wanted: readonly string[]): void {
  const selected = selectRows(wanted);
  if (selected.length === 0) return;
  describe(title, () => {
    const rows = [HARDWARE_KVM, ...selected, NO_VM_LEFT];
    let results: KvmResults;
    beforeAll(async () => {
      results = await runRowsOnKvm({ rows, snapshots, limits: LIMITS });
    }, COMPILE_LIMIT_MS);
    afterAll(async () => {
      await results.stop();
      results.noteRun();
    });

    test.each(rows)('%s', (row) => results.row(row));
  });
}

for (const vmm of VMMS)
  runInOneLab(
    `the whole table on ${vmm}`,
    true,
    listRows(vmm, [
      ...BASICS,
      ...(vmm === 'vmm' ? [...IDENTITIES, ...MEMORY, ...FULL_SAVES, SHARED_DISK, ...HOSTILE_KERNEL, ...CRASHES] : []),
      ...COPIES,
      ...FULL_DISK,
      ...HOSTILE,
      ...BEHAVIOURS,
      ...DEATHS,
    ]),
  );
runInOneLab('runs of the product on vmm', false, listRows('vmm', RUNS));
