/** Which task queue takes which activity of a run, according to its admission and the leases of its VMs. */
import type { Placement } from '../../activities/contract.ts';
import { isQueueName } from '../../domain/run/host.ts';
import type { VmLease } from '../../domain/run/vm-lease.ts';
import { workflowFailure } from '../failure.ts';
import { quote } from '../../domain/units/quote.ts';

export interface RunQueues {
  /** The queue for stages that own their VM. */
  readonly host: string;
  /** The queue for writing about the run as a whole. */
  readonly store: string;
  /** The queue for the call for a VM that several stages share. */
  readonly lease: string;
}

/**
 * Returns the queues of a run; the host's queue is the default of the others.
 * @throws ApplicationFailure if a name is not valid: as an option of an activity it would fail the workflow's task for
 * ever
 */
export function queuesOf({ hostQueue, storeQueue = hostQueue, leaseQueue = hostQueue }: Placement): RunQueues {
  for (const queue of [hostQueue, storeQueue, leaseQueue])
    if (!isQueueName(queue))
      throw workflowFailure('internal/bug', `the admission names ${quote(queue)} as a task queue`);
  return { host: hostQueue, store: storeQueue, lease: leaseQueue };
}

/** Returns the queue of a stage: the queue of its VM. */
export function stageQueue(queues: RunQueues, lease: VmLease | null): string {
  return lease?.queue ?? queues.host;
}

/**
 * If the call for a shared VM failed, it may have left a VM on the host that took it. So its release uses the same
 * queue.
 */
export function releaseQueue(queues: RunQueues, lease: VmLease | null, isShared: boolean): string {
  return lease === null && isShared ? queues.lease : stageQueue(queues, lease);
}
