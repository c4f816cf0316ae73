/** What a run and the windows of its items tell each other. */
import type { HistoryLimit, UpstreamOutputs } from '../../activities/contract.ts';
import type { ItemPartWire, MachineStage } from '../../domain/pipeline/machine-plan.ts';
import type { InstancePath } from '../../domain/run/instance.ts';

/** The argument of the workflow type `voidboxItems`. Activities believe none of it: they ask whose child the workflow is. */
export interface ItemsRequest {
  readonly runId: string;
  /** As the run's machine has it, but for its part. */
  readonly stage: MachineStage;
  /** What each item does; absent: a command. */
  readonly part?: ItemPartWire | undefined;
  /** Of the item that has the list; absent: the run itself has it. */
  readonly instance?: InstancePath | undefined;
  /** Of the stage: in a loop each visit has a list of its own. Absent: the first. */
  readonly attempt?: number | undefined;
  /** The run's first execution, where the part has lists: names of their windows have it. */
  readonly executionId?: string | undefined;
  /** First item. */
  readonly from: number;
  /** Behind the last item. */
  readonly to: number;
  /** The behaviour of the run. */
  readonly behaviour: number;
  /** As the run's admission fixed it. */
  readonly recordsBoots: boolean;
  /** Items at the same time. */
  readonly slots: number;
  /** Where the window's history is as long as this no other item starts. Absent: every item is started. */
  readonly lastStart?: HistoryLimit | undefined;
  /** With more failed items than this nothing else starts; null: every item is done. */
  readonly mostFailures: number | null;
  /** What the stage takes of earlier ones, which is the same for every item. */
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  /** Task queues of the run. */
  readonly hostQueue: string;
  readonly storeQueue: string;
  /** Of VMs that several stages of an item share; absent: that of the host. */
  readonly leaseQueue?: string | undefined;
}

export interface ItemsEnd {
  readonly succeeded: number;
  readonly failed: number;
  /** The first item that was not started because the history grew long: another window goes on with it. */
  readonly next?: number;
}
