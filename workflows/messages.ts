/** What clients and the workflow agree on: names that stand in histories and in other people's code. */
import { type InstancePath, instanceText } from '../domain/run/instance.ts';

/** The workflow type. Its id is the run id. */
export const RUN_WORKFLOW_TYPE = 'voidboxRun';

/** The workflow type that does items of a stage, as a child of their run. */
export const ITEMS_WORKFLOW_TYPE = 'voidboxItems';

/**
 * @param executionId  the run's first, which a reset keeps
 * @param instance  of the item that has the list; empty: the run itself has it
 * @param attempt  of the stage, which makes a list in each visit of a loop
 */
export function itemsWorkflowId(
  executionId: string,
  stage: string,
  window: number,
  instance: InstancePath = [],
  attempt = 1,
): string {
  return `items/${executionId}/${instanceText(instance)}/${stage}${attempt === 1 ? '' : `~${attempt}`}/${window}`;
}

export const RUN_MESSAGES = {
  /** Update: `AnswerRequest` to `AnswerReceipt`, for a stage that waits for an answer. */
  answer: 'answer',
  /** Signal without argument: also the stages with `finally` end. */
  cancelFinally: 'cancelFinally',
  /** Query: `ViewRequest` or nothing to `RunStatus`. */
  view: 'view',
} as const;

/** Of a workflow that does items. */
export const ITEMS_MESSAGES = {
  /** Update: `AnswerRequest` to `AnswerReceipt`, for a stage of an item, which it names as `review[3].ok`. */
  answer: 'answer',
  /** Query without argument: names of the stages that wait for an answer now. */
  asking: 'asking',
} as const;

/** Workflows and `admit`. */
export const RUN_TASK_QUEUE = 'voidbox';

/** Queue of everything that touches one host of several: its VMs and its files. The only host of a server needs none of its own. */
export function hostTaskQueue(hostId: string): string {
  return `voidbox-host:${hostId}`;
}

/** Voidbox's search attributes, all keywords. A worker registers missing ones when it starts. */
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

/** The type of the failure that refuses an update; its first detail is the `SessionResult`. */
export const SESSION_REFUSED = 'session/refused';

/** Memo of a session's later runs: when its first one began, in milliseconds since 1970. */
export const SESSION_STARTED_AT_MEMO = 'voidboxStartedAtMs';
