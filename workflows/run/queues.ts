/** Which task queue takes which activity of a run: what its admission and the leases of its VMs say. */
import type { Placement } from '../../activities/contract.ts';
import { isQueueName } from '../../domain/run/host.ts';
import type { VmLease } from '../../domain/run/vm-lease.ts';
import { workflowFailure } from '../failure.ts';
import { quote } from '../../domain/units/quote.ts';

export interface RunQueues {
  /** Of stages that own their VM. */
  readonly host: string;
  /** Of what is written about the run as a whole. */
  readonly store: string;
  /** Of the call for a VM that several stages share. */
  readonly lease: string;
}

/**
 * The host's queue is the default of the others.
 * @throws ApplicationFailure when a queue cannot be one: as an option of an activity it would fail the workflow's task for ever
 */
export function queuesOf({ hostQueue, storeQueue = hostQueue, leaseQueue = hostQueue }: Placement): RunQueues {
  for (const queue of [hostQueue, storeQueue, leaseQueue])
    if (!isQueueName(queue))
      throw workflowFailure('internal/bug', `the admission names ${quote(queue)} as a task queue`);
  return { host: hostQueue, store: storeQueue, lease: leaseQueue };
}

/** Of a stage: where its VM is. */
export function stageQueue(queues: RunQueues, lease: VmLease | null): string {
  return lease?.queue ?? queues.host;
}

/** A call for a shared VM that failed may have left a VM on the host that took it: its release goes to the same queue. */
export function releaseQueue(queues: RunQueues, lease: VmLease | null, isShared: boolean): string {
  return lease === null && isShared ? queues.lease : stageQueue(queues, lease);
}
