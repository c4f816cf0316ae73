/** The data that a workflow holds about a VM. */
import { isHostId, isQueueName } from './host.ts';

/** The right to use a VM, and the place of that VM. */
export interface VmLease {
  readonly vmKey: string;
  /** The queue for activities of this VM. Absent: the queue of the run's host. */
  readonly queue?: string;
  /** Id of the host that the VM is on. Absent: the host that admitted the run. */
  readonly host?: string;
}

/** The answer of `acquireVm`. */
export interface AcquiredVm extends VmLease {
  /** How long the VM took to boot. Absent: the VM is a mock. */
  readonly bootMs?: number;
}

/**
 * Reads only the lease from an answer of `acquireVm`; null if the answer contains no lease. Any client that reaches the
 * server can complete an activity with any value. A queue that is not a string would fail the workflow's task again and
 * again.
 */
export function vmLeaseOf(value: unknown): VmLease | null {
  if (typeof value !== 'object' || value === null) return null;
  const { vmKey, queue, host } = value as Partial<Record<keyof VmLease, unknown>>;
  if (typeof vmKey !== 'string' || vmKey === '') return null;
  if (queue !== undefined && !isQueueName(queue)) return null;
  if (host !== undefined && !isHostId(host)) return null;
  return { vmKey, ...(queue === undefined ? {} : { queue }), ...(host === undefined ? {} : { host }) };
}
