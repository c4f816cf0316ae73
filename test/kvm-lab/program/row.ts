/** A row that needs VMs of a VMM. */
import type { Conformance } from '../../conformance/sandbox.ts';
import type { KvmTask } from './task.ts';

export interface OnVmm {
  readonly conformance: Conformance;
  /** The folder of the run directories of its VMs. */
  readonly vmsDir: string;
  readonly task: KvmTask;
}

export interface VmmRow {
  readonly name: string;
  run(on: OnVmm): Promise<void>;
}
