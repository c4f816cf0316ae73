/** What clients and the workflow agree on: names that stand in histories and in other people's code. */

/** The workflow type. Its id is the run id. */
export const RUN_WORKFLOW_TYPE = 'voidboxRun';

export const RUN_MESSAGES = {
  /** Update: `AnswerRequest`, to a stage that waits for an answer. */
  answer: 'answer',
} as const;

/** Workflows and `admit`. */
export const RUN_TASK_QUEUE = 'voidbox';

/** Queue of everything that touches one host of several: its VMs and its files. The only host of a server needs none of its own. */
export function hostTaskQueue(hostId: string): string {
  return `voidbox-host:${hostId}`;
}

/** Search attributes of ours, all keywords. A worker registers missing ones when it starts. */
export const SEARCH_ATTRIBUTES = {
  name: 'VoidboxName',
  state: 'VoidboxState',
  host: 'VoidboxHost',
} as const;

/** The workflow type of a session of a step machine. Its id is the session id. */
export const SESSION_WORKFLOW_TYPE = 'voidboxSession';

/** Sessions, and all that they call: workers that have loaded skills. */
export const SESSION_TASK_QUEUE = 'voidbox-sessions';

export const SESSION_MESSAGES = {
  /** Update: `AdvanceRequest` to `SessionAnswer`. */
  advance: 'advance',
  /** Update without argument: waits until nobody works for a client and says how the session stands. */
  settle: 'settle',
  /** Query: `SessionView`. */
  view: 'view',
  /** Query: `SessionRecords`. */
  records: 'records',
  /** Query: turn and key of an answer to the `SessionAnswer` that it got, null when it was not taken. For sessions that have ended. */
  answered: 'answered',
} as const;

/** The type of the failure that refuses an update; its first detail is the `CliResult`. */
export const SESSION_REFUSED = 'session/refused';

/** Memo of a session's later runs: when its first one began, in milliseconds since 1970. */
export const SESSION_STARTED_AT_MEMO = 'voidboxStartedAtMs';
