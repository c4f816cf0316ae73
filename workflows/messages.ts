/** The names that clients and the workflow share. Histories and code of other projects contain them. */
import { type InstancePath, formatInstance } from '../domain/run/instance.ts';

/** The workflow type. Its id is the run id. */
export const RUN_WORKFLOW_TYPE = 'voidboxRun';

/** The workflow type that runs items of a stage, as a child of their run. */
export const ITEMS_WORKFLOW_TYPE = 'voidboxItems';

/**
 * @param executionId  the run's first execution id, which a reset keeps
 * @param instance  the item that contains the list; empty: the list belongs to the run itself
 * @param attempt  the attempt of the stage, which makes a list in each visit of a loop
 */
export function itemsWorkflowId(
  executionId: string,
  stage: string,
  window: number,
  instance: InstancePath = [],
  attempt = 1,
): string {
  return `items/${executionId}/${formatInstance(instance)}/${stage}${attempt === 1 ? '' : `~${attempt}`}/${window}`;
}

export const RUN_MESSAGES = {
  /** Update: `AnswerRequest` to `AnswerReceipt`, for a stage that waits for an answer. */
  answer: 'answer',
  /** Signal without argument: stages with `finally` end too. */
  cancelFinally: 'cancelFinally',
  /** Query: `ViewRequest` or nothing to `RunStatus`. */
  view: 'view',
} as const;

/** Messages to a workflow that runs items. */
export const ITEMS_MESSAGES = {
  /** Update: `AnswerRequest` to `AnswerReceipt`, for a stage of an item, which it names as `review[3].ok`. */
  answer: 'answer',
  /** Query without argument: names of the stages that wait for an answer now. */
  asking: 'asking',
} as const;

/** The queue of workflows and of `admit`. */
export const RUN_TASK_QUEUE = 'voidbox';

/**
 * The queue of all calls that touch one of several hosts: its VMs and its files. The only host of a server does not
 * need it.
 */
export function hostTaskQueue(hostId: string): string {
  return `voidbox-host:${hostId}`;
}

/** Voidbox's search attributes, all keywords. A worker registers missing ones when it starts. */
export const SEARCH_ATTRIBUTES = {
  name: 'VoidboxName',
  state: 'VoidboxState',
  host: 'VoidboxHost',
  /** Only runs of deliveries have it. */
  deployment: 'VoidboxDeployment',
} as const;

/** The workflow type of one time of a schedule; its argument is a `ScheduleRequest`. */
export const SCHEDULE_WORKFLOW_TYPE = 'voidboxSchedule';

/** The workflow type of a session of a step machine. Its id is the session id. */
export const SESSION_WORKFLOW_TYPE = 'voidboxSession';

/** The queue of sessions, and of all that they call: workers that have loaded skills. */
export const SESSION_TASK_QUEUE = 'voidbox-sessions';

export const SESSION_MESSAGES = {
  /** Update: `AdvanceRequest` to `SessionAnswer`. */
  advance: 'advance',
  /** Update without argument: waits until the session waits for clients, and returns its state. */
  settle: 'settle',
  /** Query: `SessionView`. */
  view: 'view',
  /** Query: `SessionRecords`. */
  records: 'records',
  /**
   * Query: the turn and key of an answer to its `SessionAnswer`; null if the answer was not accepted. For sessions that
   * have ended.
   */
  answered: 'answered',
} as const;

/** The type of the failure that refuses an update; its first detail is the `SessionResult`. */
export const SESSION_REFUSED = 'session/refused';

/** Memo of a session's later runs: the start of its first run, in milliseconds since 1970. */
export const SESSION_STARTED_AT_MEMO = 'voidboxStartedAtMs';
