/** One update of a session: sent again while nobody is there to take it, and what the server refuses of itself told as a result. */
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

/** A session that begins its history anew is away for this long at most. */
const GAP_TRIES = 20;
const GAP_MS = 100;
/** A server that has nothing else to do begins a sub-skill's session within some milliseconds. */
const BEGIN_PAUSE_MS = 20;
/** One that is overloaded is not asked all the time. */
const BEGIN_PAUSE_MAX_MS = 1_000;
/** Of gRPC. */
const RESOURCE_EXHAUSTED = 8;
const FAILED_PRECONDITION = 9;

/** One update. Between two runs of a session's workflow there is a moment in which nobody takes it: then it is sent again. */
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
 * How the session of a sub-skill stands. Its caller names it with the command that asks the server for it, so it may not be
 * there yet: then it is waited for, as nobody but its clients brings it to its end.
 * @throws WorkflowNotFoundError when it has ended, or is never to begin
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

/** The server takes only so many updates of one run, at once and in all: 10 and 2,000, unless it is set otherwise. */
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
  const message = `The server takes no more updates of this session until ${until}; the answer was not taken. Send it again then. The server says: ${words}`;
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

/** The server's own words for an update that its workflow's run did not live to finish. */
export function isClosing(cause: unknown): boolean {
  return (
    cause instanceof ApplicationFailure &&
    (cause.type === 'AcceptedUpdateCompletedWorkflow' || cause.type === 'WorkflowClosing')
  );
}

/** What the session's validator said to it; null for any other failure. */
export function refusalIn(error: unknown): SessionResult | null {
  if (!(error instanceof WorkflowUpdateFailedError)) return null;
  const { cause } = error;
  return cause instanceof ApplicationFailure && cause.type === SESSION_REFUSED
    ? ((cause.details?.[0] as SessionResult | undefined) ?? null)
    : null;
}
