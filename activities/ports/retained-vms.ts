/**
 * VMs of this host that failed stages kept for inspection. Each VM ends automatically at its time, also without the
 * worker.
 */
import type { Retention } from '../../domain/run/retained-vm.ts';
import type { VmKey } from './sandbox.ts';

export interface RetainedVm extends Retention {
  readonly key: VmKey;
}

export interface RetainedVms {
  /** Returns the living VMs, oldest first. */
  list(): Promise<readonly RetainedVm[]>;
  /** Returns the list as it was within the last 2 s, for VMs that wait for room and ask repeatedly. */
  recent(): Promise<readonly RetainedVm[]>;
  /** Idempotent. */
  end(key: VmKey): Promise<void>;
}
