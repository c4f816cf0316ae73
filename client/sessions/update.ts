/**
 * Sends one update to a session. It retries while no workflow run can accept it, and returns a rejection by the server
 * as a result.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  ApplicationFailure,
  type Client,
  type WorkflowExecutionDescription,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import type { AdvanceRequest, SessionAnswer } from '../../activities/contract-session.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import { SESSION_MESSAGES, SESSION_REFUSED } from '../../workflows/messages.ts';

/** A session that continues as new is unavailable for at most this long. */
const GAP_TRIES = 20;
const GAP_MS = 100;
/** An idle server starts a sub-skill's session within some milliseconds. */
const BEGIN_PAUSE_MS = 20;
/** The longest pause, so that an overloaded server is not asked all the time. */
const BEGIN_PAUSE_MAX_MS = 1_000;
/** Status codes of gRPC. */
const RESOURCE_EXHAUSTED = 8;
const FAILED_PRECONDITION = 9;

/** Sends one update. Between two runs of a session's workflow no run accepts it; then the update is sent again. */
export async function updateSession(
  client: Client,
  session: string,
  name: string,
  argument: Partial<AdvanceRequest> & { readonly ended?: string },
): Promise<SessionAnswer> {
  const handle = client.workflow.getHandle(session);
  for (let tries = 1; ; tries += 1) {
    try {
      return (await handle.executeUpdate(name, { args: [argument], updateId: randomUUID() })) as SessionAnswer;
    } catch (error) {
      const crowded = toCrowdedAnswer(error, argument.step ?? '');
      if (crowded !== null) return crowded;
      if (
        refusalIn(error) !== null ||
        tries >= GAP_TRIES ||
        !(isOverrun(error) || (await isBetweenRuns(client, session, error)))
      )
        throw error;
      await sleep(GAP_MS);
    }
  }
}

/**
 * Waits for the session of a sub-skill and returns its answer. Its caller names the session in the command that asks
 * the server to start it, so the session may not exist yet. Then this function waits for it, because only clients bring
 * a session to its end.
 * @throws WorkflowNotFoundError if the session has ended, or will never start
 */
export async function settleCalled(client: Client, caller: string, called: string): Promise<SessionAnswer> {
  const settle = (): Promise<SessionAnswer> => updateSession(client, called, SESSION_MESSAGES.settle, {});
  try {
    return await settle();
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError) || !(await hasBegun(client, caller, called))) throw error;
    return await settle();
  }
}

/** Waits until it is there, while the server still has it on its list for the caller. */
async function hasBegun(client: Client, caller: string, called: string): Promise<boolean> {
  for (let pauseMs = 0; ; pauseMs = Math.min(Math.max(2 * pauseMs, BEGIN_PAUSE_MS), BEGIN_PAUSE_MAX_MS)) {
    if (pauseMs > 0) await sleep(pauseMs);
    const found = await describeWorkflow(client, called);
    if (found !== null) return pauseMs > 0 || found.status.name === 'RUNNING';
    const by = await describeWorkflow(client, caller);
    if (by?.status.name !== 'RUNNING') return false;
    if (by.raw.pendingChildren?.some(({ workflowId }) => workflowId === called) !== true) return false;
  }
}

async function describeWorkflow(client: Client, workflowId: string): Promise<WorkflowExecutionDescription | null> {
  try {
    return await client.workflow.getHandle(workflowId).describe();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  }
}

/** The server limits the updates of one run: by default 10 at once, and 2,000 over its lifetime. */
function toCrowdedAnswer(error: unknown, step: string): SessionAnswer | null {
  const { code, details } =
    (error instanceof Error
      ? (error.cause as { readonly code?: unknown; readonly details?: unknown } | undefined)
      : null) ?? {};
  const words = String(details);
  const isFull = code === FAILED_PRECONDITION && words.includes('total number of distinct updates');
  if (!isFull && !(code === RESOURCE_EXHAUSTED && words.includes('in-flight updates'))) return null;
  const until = isFull
    ? 'it continues as new, once its running actions and sub-skills have ended'
    : 'another one has its reply';
  const message = `The server accepts no more updates of this session until ${until}; the answer was not accepted. Send it again then. Error of the server: ${words}`;
  return { kind: 'answer', result: { kind: 'error', error: 'busy', step, message, retry: true } };
}

/** The workflow was to end with this update when it was cancelled: the server has it begin again from before the update, without it. */
function isOverrun(error: unknown): boolean {
  const { cause } =
    error instanceof Error
      ? (error as { readonly cause?: { readonly code?: unknown; readonly details?: unknown } })
      : {};
  return cause?.code === FAILED_PRECONDITION && String(cause.details).includes('unexpected workflow task failure');
}

async function isBetweenRuns(client: Client, session: string, error: unknown): Promise<boolean> {
  const isGap =
    error instanceof WorkflowNotFoundError || (error instanceof WorkflowUpdateFailedError && isClosing(error.cause));
  if (!isGap) return false;
  return (await describeWorkflow(client, session))?.status.name === 'RUNNING';
}

/** Whether the error is the server's message for an update that its run did not finish. */
export function isClosing(cause: unknown): boolean {
  return (
    cause instanceof ApplicationFailure &&
    (cause.type === 'AcceptedUpdateCompletedWorkflow' || cause.type === 'WorkflowClosing')
  );
}

/** Returns the result with which the session's validator rejected the update; null for any other failure. */
export function refusalIn(error: unknown): SessionResult | null {
  if (!(error instanceof WorkflowUpdateFailedError)) return null;
  const { cause } = error;
  return cause instanceof ApplicationFailure && cause.type === SESSION_REFUSED
    ? ((cause.details?.[0] as SessionResult | undefined) ?? null)
    : null;
}
