/** What clients and the workflow agree on: names that stand in histories and in other people's code. */

/** The workflow type. Its id is the run id. */
export const RUN_WORKFLOW_TYPE = 'voidboxRun';

/** Workflows and `admit`. Everything that touches a host goes through that host's own queue. */
export const RUN_TASK_QUEUE = 'voidbox';

/** Queue of everything that touches one host: its VMs and its files. */
export function hostTaskQueue(hostId: string): string {
  return `voidbox-host:${hostId}`;
}

/** Search attributes of ours, all keywords. A worker registers missing ones when it starts. */
export const SEARCH_ATTRIBUTES = {
  name: 'VoidboxName',
  state: 'VoidboxState',
  host: 'VoidboxHost',
} as const;
