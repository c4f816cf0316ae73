/** Rows about KVM itself, beside those of the conformance table. */
import assert from 'node:assert/strict';
import { readHostFacts } from '../../../native/index.ts';
import { request, textOf } from '../../conformance/sandbox/behaviour.ts';
import type { Conformance } from '../../conformance/sandbox.ts';
import type { KvmTask } from './task.ts';

export interface KvmRow {
  readonly name: string;
  run(c: Conformance, task: KvmTask): Promise<void>;
}

export const KVM_ROWS: readonly KvmRow[] = [
  {
    name: 'the keeper finds hardware KVM',
    async run(_c, { pieces }) {
      assert.equal((await readHostFacts(pieces.keeper)).kvm, 'hardware');
    },
  },
  {
    name: 'a command runs in a VM of QEMU on KVM',
    async run(c) {
      const sandbox = await c.shared();
      assert.deepEqual([sandbox.facts.vmm, sandbox.facts.accelerator], ['qemu', 'kvm']);
      assert.equal(await textOf(sandbox, request('true')), '');
    },
  },
];

/** It comes last, and is about all rows before it. */
export const NO_VM_LEFT = 'no row leaves a VM';
