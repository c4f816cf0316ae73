/** VMs of this host that failed stages have left for a look. Each ends by itself at its time, whatever becomes of the worker. */
import type { Retention } from '../../domain/run/retained-vm.ts';
import type { VmKey } from './sandbox.ts';

export interface RetainedVm extends Retention {
  readonly key: VmKey;
}

export interface RetainedVms {
  /** Those that live, oldest first. */
  list(): Promise<readonly RetainedVm[]>;
  /** The same as it was within the last 2 s, for VMs that wait for room and ask again and again. */
  recent(): Promise<readonly RetainedVm[]>;
  /** Idempotent. */
  end(key: VmKey): Promise<void>;
}
