/** What a workflow holds of a VM. */
import { isHostId, isQueueName } from './host.ts';

/** The right to a VM, and where that VM is. */
export interface VmLease {
  readonly vmKey: string;
  /** Takes the activities of this VM. Absent: the queue of the run's host. */
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
 * The lease in an answer of `acquireVm`, without anything else; null when there is none. Any client that reaches the server can
 * complete an activity with any value, and a queue that is not a string would fail the workflow's task again and again.
 */
export function vmLeaseOf(value: unknown): VmLease | null {
  if (typeof value !== 'object' || value === null) return null;
  const { vmKey, queue, host } = value as Partial<Record<keyof VmLease, unknown>>;
  if (typeof vmKey !== 'string' || vmKey === '') return null;
  if (queue !== undefined && !isQueueName(queue)) return null;
  if (host !== undefined && !isHostId(host)) return null;
  return { vmKey, ...(queue === undefined ? {} : { queue }), ...(host === undefined ? {} : { host }) };
}
