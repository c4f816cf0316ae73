/**
 * Starts, cancels, awaits and inspects runs for a client, and writes the records that a terminated run could not write.
 */
import {
  ActivityFailure,
  ApplicationFailure,
  CancelledFailure,
  TerminatedFailure,
  TimeoutFailure,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  WorkflowNotFoundError,
  type Client,
} from '@temporalio/client';
import type { RunRequest } from '../../activities/contract.ts';
import type { EventLog } from '../../activities/ports/event-log.ts';
import { toErrorCode } from '../../domain/errors/error-code.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { RunOutcome } from '../../domain/run/event.ts';
import type { StageFailure } from '../../domain/run/stage-result.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { RUN_MESSAGES, RUN_TASK_QUEUE, RUN_WORKFLOW_TYPE } from '../../workflows/messages.ts';
import { callStatus } from '../temporal/unavailable.ts';

export interface StartOptions {
  readonly runId: string;
  readonly request: RunRequest;
  /** One line that the Temporal UI shows for the run. */
  readonly summary: string;
  /** Markdown that the UI shows below it. */
  readonly details?: string;
}

/** The id was used before, by a run that is still open or by one that has ended. */
export class RunExistsError extends Error {
  readonly runId: string;

  constructor(runId: string) {
    super(`run ${runId} already exists: choose another --run-id`);
    this.name = 'RunExistsError';
    this.runId = runId;
  }
}

/** The connection was lost during a start, and the server does not say whether it has the run. */
export class UnknownStartError extends Error {
  readonly runId: string;

  constructor(runId: string, cause: unknown) {
    super(`run ${runId} may have started: the connection to the server was lost during its start`, { cause });
    this.name = 'UnknownStartError';
    this.runId = runId;
  }
}

/**
 * Starts the run and does not wait for it.
 * @throws RunExistsError, UnknownStartError; after any other error the server does not have the run
 */
export async function startRun(client: Client, { runId, request, summary, details }: StartOptions): Promise<void> {
  try {
    await client.workflow.start(RUN_WORKFLOW_TYPE, {
      workflowId: runId,
      taskQueue: RUN_TASK_QUEUE,
      args: [request],
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
      workflowIdConflictPolicy: 'FAIL',
      staticSummary: summary,
      ...(details === undefined ? {} : { staticDetails: details }),
    });
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) throw new RunExistsError(runId);
    if (!(await hasStarted(client, runId, error))) throw error;
  }
}

/** gRPC statuses with which a call can end after the server has done it: CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE. */
const STATUSES_OF_LOST_ANSWERS: readonly (number | null)[] = [1, 2, 4, 13, 14];
const ASK_MS = 5_000;

/**
 * Asks the server for a run whose start failed.
 * @throws UnknownStartError
 */
async function hasStarted(client: Client, runId: string, error: unknown): Promise<boolean> {
  if (!STATUSES_OF_LOST_ANSWERS.includes(callStatus(error))) return false;
  try {
    const { state } = await client.withDeadline(Date.now() + ASK_MS, () => describeRun(client, runId));
    return state !== 'missing';
  } catch {
    throw new UnknownStartError(runId, error);
  }
}

/** Asks a run to stop; returns false if no open run has this id. */
export async function cancelRun(client: Client, runId: string): Promise<boolean> {
  try {
    await client.workflow.getHandle(runId).cancel();
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

/** The same, and of a run that was asked before also its stages with `finally`. For people: a second call is a second wish. */
export async function cancelRunOrRest(client: Client, runId: string): Promise<boolean> {
  const handle = client.workflow.getHandle(runId);
  try {
    const { raw } = await handle.describe();
    if (raw.workflowExtendedInfo?.cancelRequested !== true) return await cancelRun(client, runId);
    await handle.signal(RUN_MESSAGES.cancelFinally);
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

export type WorkflowState = 'running' | 'succeeded' | 'failed' | 'cancelled' | 'terminated' | 'timed-out' | 'missing';

export interface RunDescription {
  readonly state: WorkflowState;
  readonly startedAtMs: number | null;
  readonly closedAtMs: number | null;
}

export async function describeRun(client: Client, runId: string): Promise<RunDescription> {
  try {
    const { status, startTime, closeTime } = await client.workflow.getHandle(runId).describe();
    return {
      state: STATES[status.name] ?? 'running',
      startedAtMs: startTime.getTime(),
      closedAtMs: closeTime?.getTime() ?? null,
    };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return { state: 'missing', startedAtMs: null, closedAtMs: null };
    throw error;
  }
}

const STATES: Readonly<Record<string, WorkflowState>> = {
  RUNNING: 'running',
  COMPLETED: 'succeeded',
  FAILED: 'failed',
  CANCELLED: 'cancelled',
  TERMINATED: 'terminated',
  TIMED_OUT: 'timed-out',
  CONTINUED_AS_NEW: 'running',
  PAUSED: 'running',
};

/** Waits for the run's end by Temporal. Expected endings are values. @throws what the connection throws, and WorkflowNotFoundError */
export async function awaitOutcome(client: Client, runId: string): Promise<RunOutcome> {
  try {
    return (await client.workflow.getHandle(runId).result()) as RunOutcome;
  } catch (error) {
    if (!(error instanceof WorkflowFailedError)) throw error;
    return outcomeOf(error.cause);
  }
}

function outcomeOf(cause: Error | undefined): RunOutcome {
  const none = { failedStage: null, output: null } as const;
  // The run's last activity could not be done: its reason is the run's.
  if (cause instanceof ActivityFailure && cause.cause !== undefined) return outcomeOf(cause.cause);
  if (cause instanceof ApplicationFailure || cause instanceof CancelledFailure) {
    const carried = cause.details?.[0] as RunOutcome | undefined;
    if (carried !== undefined && carried !== null && typeof carried === 'object' && 'state' in carried) return carried;
  }
  if (cause instanceof CancelledFailure) return { ...none, state: 'cancelled', failure: null };
  if (cause instanceof ApplicationFailure)
    return {
      ...none,
      state: 'failed',
      failure: { code: toErrorCode(cause.type), message: cause.message, stderrTail: '' },
    };
  if (cause instanceof TerminatedFailure) return createTerminatedOutcome(cause.message);
  if (cause instanceof TimeoutFailure)
    return { ...none, state: 'failed', failure: createTerminationFailure(cause.message) };
  return {
    ...none,
    state: 'failed',
    failure: { code: 'internal/bug', message: cause?.message ?? 'the workflow failed', stderrTail: '' },
  };
}

/**
 * The largest reason of a termination, which comes from a server or an operator. Events store it and terminals show it.
 */
const MOST_REASON_CHARACTERS = 2_048;

function createTerminatedOutcome(reason: string): RunOutcome {
  return { state: 'terminated', failedStage: null, failure: createTerminationFailure(reason), output: null };
}

function createTerminationFailure(reason: string): StageFailure {
  return {
    code: 'run/terminated',
    message: `the run's workflow was ended from outside: ${sanitizeLine(reason.slice(0, MOST_REASON_CHARACTERS))}`,
    stderrTail: '',
  };
}

export interface RepairOptions {
  readonly missingIsGone?: boolean;
  readonly now?: () => number;
}

/**
 * Appends the terminal event that a run lacks because its workflow ended without writing it. Returns the outcome it
 * wrote; null when there was nothing to repair. Another server may know a run that this server does not. So only a
 * caller that knows that the run was this server's (`missingIsGone`) may treat it as ended.
 */
export async function repairRun(
  client: Client,
  events: EventLog,
  runId: string,
  { missingIsGone = false, now = Date.now }: RepairOptions = {},
): Promise<RunOutcome | null> {
  if ((await events.find(runId, EVENT_ID.runFinished)) !== null) return null;
  const { state } = await describeRun(client, runId);
  if (state === 'running' || (state === 'missing' && !missingIsGone)) return null;
  const closed =
    state === 'missing' ? createTerminatedOutcome('the server no longer knows it') : await awaitOutcome(client, runId);
  // The latest workflow with the id is another one, which was refused for this run's records.
  const outcome =
    closed.failure?.code === 'run/id-taken'
      ? createTerminatedOutcome('a later workflow was started with its id')
      : closed;
  const recorded = pickRecordedOutcome(outcome);
  const added = await events.append(runId, [
    { id: EVENT_ID.runFinished, atMs: now(), body: { type: 'run-finished', outcome: recorded } },
  ]);
  return added > 0 ? recorded : null;
}

/**
 * Returns only the fields of an event. The reply of a workflow also has the text of the output, which the log must not
 * contain.
 */
function pickRecordedOutcome({ state, failedStage, failure, output, tolerated }: RunOutcome): RunOutcome {
  return { state, failedStage, failure, output, ...(tolerated === undefined ? {} : { tolerated }) };
}
