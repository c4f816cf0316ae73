/** VMs on a real /dev/kvm, as part of `npm test`: the smoke rows, a release and kills; `npm run test:kvm` runs all of them. */
import { afterAll, beforeAll, test } from 'vitest';
import { runRowsOnKvm } from './prepare.ts';
import { SMOKE } from '../conformance/sandbox.ts';
import { BASICS, DEATHS, HARDWARE_KVM, IDENTITIES, listRows, NO_VM_LEFT } from './program/kvm-rows.ts';
import type { RowResults } from './run-rows.ts';

const ROWS = [
  HARDWARE_KVM,
  ...listRows('qemu', BASICS),
  ...listRows('vmm', [...BASICS, ...IDENTITIES, ...SMOKE, ...DEATHS]),
  NO_VM_LEFT,
];
/**
 * Two silent labs end within four minutes. A lab with progress gets more: beside other VMs on a slow machine, its rows
 * took longer than that.
 */
const LIMITS = { wholeMs: 480_000, silenceMs: 115_000 };

/** The first run compiles `voidbox-vmm`, beside other tests. */
const COMPILE_LIMIT_MS = 600_000;

let results: RowResults;

beforeAll(async () => {
  results = await runRowsOnKvm({ rows: ROWS, snapshots: false, limits: LIMITS });
}, COMPILE_LIMIT_MS);

afterAll(() => results.stop());

test.each(ROWS)('%s', { timeout: 490_000 }, (row) => results.row(row));
