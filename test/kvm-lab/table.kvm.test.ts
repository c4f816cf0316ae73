/** Rows in VMs of QEMU on a real /dev/kvm. */
import { afterAll, beforeAll, test } from 'vitest';
import { runRowsOnKvm } from './prepare.ts';
import { KVM_ROWS, NO_VM_LEFT } from './program/kvm-rows.ts';
import type { RowResults } from './run-rows.ts';

const ROWS = KVM_ROWS.map(({ name }) => name).concat(NO_VM_LEFT);
const LIMITS = { attemptMs: 25 * 60_000, silenceMs: 4 * 60_000 };

let results: RowResults;

beforeAll(async () => {
  results = await runRowsOnKvm({ rows: ROWS, snapshots: true, limits: LIMITS });
});

afterAll(() => results.stop());

test.each(ROWS)('%s', (row) => results.row(row));
