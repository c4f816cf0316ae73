/** Voidbox's own kernel in VMs on a real /dev/kvm, if it is built. `sandbox/micro-vm.vm.test.ts` boots it on emulated CPUs. */
import { afterAll, beforeAll, describe, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { resolveHostPieces, SetupError } from '../../setup/resolve.ts';
import { SMOKE } from '../conformance/sandbox.ts';
import { type KvmResults, runRowsOnKvm, selectRows } from './prepare.ts';
import { BASICS, HARDWARE_KVM, IDENTITIES, listRows, NO_VM_LEFT, SHARED_DISK, VMMS } from './program/kvm-rows.ts';

const LIMITS = { wholeMs: 20 * 60_000, silenceMs: 4 * 60_000 };

/** The first run compiles `voidbox-vmm`. */
const COMPILE_LIMIT_MS = 600_000;

const own = await resolveHostPieces(readEnvironment(), { install: false, kernelKind: 'voidbox' }).catch(
  (error: unknown) => {
    if (error instanceof SetupError) return null;
    throw error;
  },
);

const rows = [
  HARDWARE_KVM,
  ...selectRows(
    VMMS.flatMap((vmm) => listRows(vmm, [...BASICS, ...(vmm === 'vmm' ? [...IDENTITIES, SHARED_DISK] : []), ...SMOKE])),
  ),
  NO_VM_LEFT,
];

describe.skipIf(own === null)(`our kernel ${own?.kernel.version ?? 'is not built (npm run kernel)'}`, () => {
  let results: KvmResults;
  beforeAll(async () => {
    results = await runRowsOnKvm({ rows, snapshots: false, limits: LIMITS, guests: own! });
  }, COMPILE_LIMIT_MS);
  afterAll(async () => {
    await results.stop();
    results.noteRun();
  });

  test.each(rows)('%s', (row) => results.row(row));
});
