/** Runs that the server has and that no worker has admitted: they have no event yet, so no store lists them. */
import { type Client, isGrpcServiceError } from '@temporalio/client';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { RUN_WORKFLOW_TYPE, SEARCH_ATTRIBUTES } from '../../workflows/messages.ts';
import { readLastPollTime, QUIET_MS } from '../temporal/pollers.ts';
import { callStatus } from '../temporal/unavailable.ts';

/**
 * `delayed`: its client set a delay. `no-worker`: no worker polls the task queue. `not-taken`: a worker polls and has not
 * completed the first workflow task, or has not begun admission. `retrying`: admission failed and waits for its next try.
 */
export type AdmissionReason = 'delayed' | 'no-worker' | 'not-taken' | 'admitting' | 'retrying' | 'paused';

export interface WaitingAdmission {
  readonly runId: string;
  readonly startedAtMs: number;
  readonly taskQueue: string;
  readonly reason: AdmissionReason;
  /** Tries of admission, the current or next one included; of the first workflow task if that is not done. 0: none. */
  readonly attempt: number;
  /** Start of the latest try of admission; null: none. */
  readonly triedAtMs: number | null;
  /** Start of the next try, or of a delayed run; null: neither is planned. */
  readonly nextAtMs: number | null;
  /** When a worker polled the queue last; null: it did not within the server's memory of 5 minutes, or the server does not say. */
  readonly lastPollAtMs: number | null;
  /** The failure of the latest failed try, without control characters; null if no try failed. */
  readonly failure: { readonly code: string | null; readonly message: string } | null;
}

export interface WaitingAdmissions {
  /** Latest first; at most `MOST_CHECKED`. */
  readonly runs: readonly WaitingAdmission[];
  /** There are open runs that were not checked. */
  readonly hasMore: boolean;
}

/** Each of them costs a call. */
const MOST_CHECKED = 50;
const CHECKED_AT_ONCE = 8;
/** Anyone who answers a task of the server chooses the text of a failure. */
const MOST_FAILURE_CHARACTERS = 400;

/** Events of a history until a worker has scheduled `admit`: start, task scheduled, started and completed, activity scheduled. */
const EVENTS_BEFORE_ADMISSION = 5;
/** Status codes of gRPC. */
const INVALID_ARGUMENT = 3;
const NOT_FOUND = 5;
/** `PendingActivityState` of the server's API. */
const ACTIVITY_STARTED = 2;
const ACTIVITY_CANCEL_REQUESTED = 3;
const ACTIVITY_PAUSED = 4;
const ACTIVITY_PAUSE_REQUESTED = 5;

/**
 * Asks for open runs, latest first, and then for each of at most 50 why it is not admitted.
 * @param isKnown  whether this host has events of a run, so that it need not be asked for
 * @param nowMs  milliseconds since the epoch
 * @throws what the connection throws
 */
export async function listWaitingAdmissions(
  client: Client,
  { isKnown, nowMs }: { readonly isKnown: (runId: string) => Promise<boolean>; readonly nowMs: number },
): Promise<WaitingAdmissions> {
  const { runIds, hasMore } = await listOpenRuns(client);
  const unknown: string[] = [];
  for (const runId of runIds) if (!(await isKnown(runId))) unknown.push(runId);
  const polls = new Map<string, Promise<Polls>>();
  const pollsOf = (queue: string): Promise<Polls> => {
    const asked = polls.get(queue) ?? readPolls(client, queue);
    polls.set(queue, asked);
    return asked;
  };
  const runs: WaitingAdmission[] = [];
  for (let at = 0; at < unknown.length; at += CHECKED_AT_ONCE) {
    const batch = unknown.slice(at, at + CHECKED_AT_ONCE);
    const checked = await Promise.all(batch.map((runId) => checkRun(client, runId, { pollsOf, nowMs })));
    runs.push(...checked.filter((run) => run !== null));
  }
  return { runs, hasMore };
}

export interface OpenRuns {
  readonly runIds: readonly string[];
  readonly hasMore: boolean;
}

/**
 * Admission sets the attribute of the state. Without our attributes, the server can only list the latest open runs of
 * any state.
 */
async function listOpenRuns(client: Client): Promise<OpenRuns> {
  const open = `WorkflowType = '${RUN_WORKFLOW_TYPE}' AND ExecutionStatus = 'Running'`;
  try {
    return await listPage(client, `${open} AND ${SEARCH_ATTRIBUTES.state} IS NULL`);
  } catch (error) {
    if (callStatus(error) !== INVALID_ARGUMENT) throw error;
    return await listPage(client, open);
  }
}

/** Lists runs that have not ended, latest first. @param sinceMs  the earliest start; absent: any */
export async function listRunsWithoutEnd(client: Client, sinceMs: number | undefined): Promise<OpenRuns> {
  const open = `WorkflowType = '${RUN_WORKFLOW_TYPE}' AND ExecutionStatus = 'Running'`;
  const since = sinceMs === undefined ? '' : ` AND StartTime >= '${new Date(sinceMs).toISOString()}'`;
  return await listPage(client, `${open}${since}`);
}

async function listPage({ workflowService, options: { namespace } }: Client, query: string): Promise<OpenRuns> {
  const page = await workflowService.listWorkflowExecutions({ namespace, query, pageSize: MOST_CHECKED });
  const runIds = (page.executions ?? []).flatMap(({ execution }) =>
    execution?.workflowId ? [execution.workflowId] : [],
  );
  return { runIds: [...new Set(runIds)], hasMore: (page.nextPageToken?.length ?? 0) > 0 };
}

/** Null in `lastMs`: no poll within the server's memory. */
type Polls = { readonly known: true; readonly lastMs: number | null } | { readonly known: false };

async function readPolls(client: Client, taskQueue: string): Promise<Polls> {
  try {
    return { known: true, lastMs: await readLastPollTime(client, taskQueue) };
  } catch {
    // A role that may list runs need not be allowed to describe a task queue.
    return { known: false };
  }
}

interface Check {
  readonly pollsOf: (queue: string) => Promise<Polls>;
  readonly nowMs: number;
}

type Described = Awaited<ReturnType<Client['workflowService']['describeWorkflowExecution']>>;

/** Null: it is admitted, or has ended since it was listed. */
async function checkRun(client: Client, runId: string, { pollsOf, nowMs }: Check): Promise<WaitingAdmission | null> {
  const described = await describe(client, runId);
  const info = described?.workflowExecutionInfo;
  if (!described || !info || info.closeTime) return null;
  const admission = (described.pendingActivities ?? []).find(({ activityType }) => activityType?.name === 'admit');
  if (admission === undefined && Number(info.historyLength ?? 0) > EVENTS_BEFORE_ADMISSION) return null;
  const taskQueue = described.executionConfig?.taskQueue?.name ?? info.taskQueue ?? '';
  const found = admission === undefined ? describeFirstTask(described, nowMs) : describeAdmission(admission, nowMs);
  const polls = found.reason === 'not-taken' ? await pollsOf(taskQueue) : null;
  const lastPollAtMs = polls?.known === true ? polls.lastMs : null;
  const isQuiet = polls?.known === true && (polls.lastMs === null || nowMs - polls.lastMs >= QUIET_MS);
  return {
    ...found,
    runId,
    startedAtMs: msOf(info.startTime) ?? nowMs,
    taskQueue,
    lastPollAtMs,
    ...(isQuiet ? { reason: 'no-worker' } : {}),
  };
}

async function describe(
  { workflowService, options: { namespace } }: Client,
  workflowId: string,
): Promise<Described | null> {
  try {
    return await workflowService.describeWorkflowExecution({ namespace, execution: { workflowId } });
  } catch (error) {
    if (isGrpcServiceError(error) && error.code === NOT_FOUND) return null;
    throw error;
  }
}

type AdmissionState = Pick<WaitingAdmission, 'reason' | 'attempt' | 'triedAtMs' | 'nextAtMs' | 'failure'>;

function describeFirstTask({ pendingWorkflowTask, workflowExecutionInfo }: Described, nowMs: number): AdmissionState {
  const found = { attempt: pendingWorkflowTask?.attempt ?? 0, triedAtMs: null, failure: null };
  const executionAtMs = msOf(workflowExecutionInfo?.executionTime);
  if (!pendingWorkflowTask && executionAtMs !== null && executionAtMs > nowMs)
    return { ...found, reason: 'delayed', nextAtMs: executionAtMs };
  return { ...found, reason: 'not-taken', nextAtMs: null };
}

function describeAdmission(
  admission: NonNullable<Described['pendingActivities']>[number],
  nowMs: number,
): AdmissionState {
  const { state } = admission;
  const lastFailure = admission.lastFailure ? unwrapFailure(admission.lastFailure) : null;
  const nextAtMs = msOf(admission.nextAttemptScheduleTime);
  const found = {
    attempt: admission.attempt ?? 0,
    triedAtMs: msOf(admission.lastStartedTime),
    nextAtMs: nextAtMs !== null && nextAtMs > nowMs ? nextAtMs : null,
    failure: lastFailure
      ? {
          code: lastFailure.applicationFailureInfo?.type ? boundText(lastFailure.applicationFailureInfo.type) : null,
          message: boundText(lastFailure.message ?? ''),
        }
      : null,
  };
  if (state === ACTIVITY_PAUSED || state === ACTIVITY_PAUSE_REQUESTED) return { ...found, reason: 'paused' };
  if (state === ACTIVITY_STARTED || state === ACTIVITY_CANCEL_REQUESTED)
    return { ...found, reason: 'admitting', nextAtMs: null };
  return { ...found, reason: found.nextAtMs === null ? 'not-taken' : 'retrying' };
}

type Failure = NonNullable<NonNullable<Described['pendingActivities']>[number]['lastFailure']>;

/**
 * Returns the original failure. The server wraps a failure of more than 4 KiB, cut, in one that only reports its size.
 */
function unwrapFailure(failure: Failure): Failure {
  const { serverFailureInfo, cause } = failure;
  return serverFailureInfo && cause ? { ...cause, message: cause.message || (failure.message ?? '') } : failure;
}

/** Cuts a text without splitting a pair of surrogates. */
function boundText(text: string): string {
  return sanitizeLine(text.slice(0, MOST_FAILURE_CHARACTERS).replace(/[\uD800-\uDBFF]$/, ''));
}

function msOf(time: { readonly seconds?: unknown; readonly nanos?: number | null } | null | undefined): number | null {
  return time ? Number(time.seconds ?? 0) * 1_000 + Math.floor((time.nanos ?? 0) / 1_000_000) : null;
}
