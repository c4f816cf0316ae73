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

/** An attempt whose work is on the disk of a VM, within the instance of that VM. */
export interface HeldAttempt {
  readonly stage: string;
  /** From 1. 0: the stage is given, and its work was done in an earlier run. */
  readonly attempt: number;
}

/** The answer of `acquireVm`. */
export interface AcquiredVm extends VmLease {
  /** How long the VM took to boot. Absent: the VM is a mock. */
  readonly bootMs?: number;
  /** The attempts whose work the VM's disk holds. Absent: the VM did not begin with a checkpoint. */
  readonly holds?: readonly HeldAttempt[];
}

/**
 * Reads the held attempts from an answer of `acquireVm`. An answer to a call that resumes nothing, or one that cannot be
 * read, names none: all steps then run again.
 */
export function readHeld(answer: unknown, resumes: true | undefined): { readonly holds?: readonly HeldAttempt[] } {
  if (resumes !== true || typeof answer !== 'object' || answer === null) return {};
  const { holds } = answer as { readonly holds?: unknown };
  return Array.isArray(holds) && holds.every(isHeldAttempt) ? { holds } : {};
}

export function isHeldAttempt(value: unknown): value is HeldAttempt {
  if (typeof value !== 'object' || value === null) return false;
  const { stage, attempt } = value as Partial<Record<keyof HeldAttempt, unknown>>;
  return typeof stage === 'string' && Number.isSafeInteger(attempt);
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
