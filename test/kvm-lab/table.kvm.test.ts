/** The whole conformance table in VMs of each VMM on a real /dev/kvm. */
import { afterAll, beforeAll, describe, test } from 'vitest';
import { BEHAVIOURS } from '../conformance/sandbox.ts';
import { type KvmResults, runRowsOnKvm, selectRows } from './prepare.ts';
import { BASICS, DEATHS, HARDWARE_KVM, listRows, NO_VM_LEFT, VMMS, type VmmName } from './program/kvm-rows.ts';

/** A row of a busy lab takes minutes. */
const LIMITS = { attemptMs: 25 * 60_000, silenceMs: 8 * 60_000 };

/** The first run compiles `voidbox-vmm`. */
const COMPILE_LIMIT_MS = 600_000;

function runTable(vmm: VmmName): void {
  describe(`the whole table on ${vmm}`, () => {
    const rows = [HARDWARE_KVM, ...selectRows(listRows(vmm, [...BASICS, ...DEATHS, ...BEHAVIOURS])), NO_VM_LEFT];
    let results: KvmResults;
    beforeAll(async () => {
      results = await runRowsOnKvm({ rows, snapshots: true, limits: LIMITS });
    }, COMPILE_LIMIT_MS);
    afterAll(async () => {
      await results.stop();
      results.noteRun();
    });

    test.each(rows)('%s', (row) => results.row(row));
  });
}

for (const vmm of VMMS) runTable(vmm);
