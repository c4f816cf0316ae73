/** The messages between a run and the windows of its items. */
import type { HistoryLimit, UpstreamOutputs } from '../../activities/contract.ts';
import type { ItemPartWire, MachineStage } from '../../domain/pipeline/machine-plan.ts';
import type { InstancePath } from '../../domain/run/instance.ts';

/**
 * The argument of the workflow type `voidboxItems`. Activities do not trust it: they check which workflow is the
 * parent.
 */
export interface ItemsRequest {
  readonly runId: string;
  /** The stage from the run's machine, without its part. */
  readonly stage: MachineStage;
  /** The part that runs for each item; absent: an item is a command. */
  readonly part?: ItemPartWire | undefined;
  /** The item that contains the list; absent: the list belongs to the run itself. */
  readonly instance?: InstancePath | undefined;
  /** The attempt of the stage: each visit of a loop has its own list. Absent: the first. */
  readonly attempt?: number | undefined;
  /** The run's first execution, if the part contains lists: the names of their windows include it. */
  readonly executionId?: string | undefined;
  /** First item. */
  readonly from: number;
  /** The index after the last item. */
  readonly to: number;
  /** The behaviour of the run. */
  readonly behaviour: number;
  /** The setting from the run's admission. */
  readonly recordsBoots: boolean;
  /** The number of concurrent items. */
  readonly slots: number;
  /** No other item starts once the window's history is this long. Absent: every item is started. */
  readonly lastStart?: HistoryLimit | undefined;
  /** No other item starts once more items than this have failed; null: every item runs. */
  readonly mostFailures: number | null;
  /** The data that the stage takes from earlier stages, the same for every item. */
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  /** Task queues of the run. */
  readonly hostQueue: string;
  readonly storeQueue: string;
  /** The queue for VMs that several stages of an item share; absent: the queue of the host. */
  readonly leaseQueue?: string | undefined;
}

export interface ItemsEnd {
  readonly succeeded: number;
  readonly failed: number;
  /** The first item that was not started because the history grew long. Another window continues with it. */
  readonly next?: number;
}
