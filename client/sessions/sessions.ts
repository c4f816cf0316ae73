/**
 * Starts, answers, inspects and cancels sessions of step machines for a client. It follows sub-skills automatically.
 */
import { createHash, randomUUID } from 'node:crypto';
import {
  type Client,
  WithStartWorkflowOperation,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import type {
  AdvanceRequest,
  ChildSession,
  SessionAnswer,
  SessionRecords,
  SessionRequest,
  SessionView,
} from '../../activities/contract-session.ts';
import { readLastPollTime } from '../temporal/pollers.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import { findSizeProblem } from '../../domain/step-machine/size-limits.ts';
import { SESSION_MESSAGES, SESSION_TASK_QUEUE, SESSION_WORKFLOW_TYPE } from '../../workflows/messages.ts';
import { mayConcernOthers, type GivenAnswer, resolveInFamily, joinViews, prefixResult, prefixView } from './family.ts';
import { isClosing, refusalIn, settleCalled, updateSession } from './update.ts';
import {
  failureOf,
  NoSessionWorkerError,
  toNoSuchSessionError,
  NoSuchSessionError,
  SessionExistsError,
  SessionFailedError,
} from './errors.ts';

/** Starts a session and waits for its first prompt. @throws SessionExistsError, SessionFailedError */
export async function startSession(client: Client, session: string, request: SessionRequest): Promise<SessionResult> {
  // The server does not answer a client whose message is too large, so check the size first.
  const large = findSizeProblem('the params have', request.params);
  if (large !== null) throw new SessionFailedError('skill/params', large);
  const operation = new WithStartWorkflowOperation(SESSION_WORKFLOW_TYPE, {
    workflowId: session,
    taskQueue: SESSION_TASK_QUEUE,
    args: [request],
    workflowIdConflictPolicy: 'FAIL',
    workflowIdReusePolicy: 'REJECT_DUPLICATE',
    staticSummary: `session of ${request.skill}`,
  });
  try {
    const answer = (await client.workflow.executeUpdateWithStart(SESSION_MESSAGES.settle, {
      args: [{}],
      updateId: randomUUID(),
      startWorkflowOperation: operation,
    })) as SessionAnswer;
    return await resolveAmongFamily(client, session, null, await followAnswer(client, session, answer));
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) throw new SessionExistsError(session);
    throw isPassedBy(error) ? ((await endOfSession(client, session)) ?? failureOf(error)) : failureOf(error);
  }
}

/** Whether the workflow ended before it received the update. Then the server's error is not the reason. */
function isPassedBy(error: unknown): boolean {
  return (
    error instanceof WorkflowNotFoundError || (error instanceof WorkflowUpdateFailedError && isClosing(error.cause))
  );
}

/** Why a session has ended without its result, by its workflow's own failure; null when it runs, ended well, or is not there. */
export async function endOfSession(client: Client, session: string): Promise<SessionFailedError | null> {
  const handle = client.workflow.getHandle(session);
  try {
    if ((await handle.describe()).status.name === 'RUNNING') return null;
    await handle.result();
    return null;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null;
    const failed = failureOf(error);
    if (failed instanceof SessionFailedError) return failed;
    throw error;
  }
}

/**
 * Rejects a start without a worker, because it would wait silently.
 * @throws NoSessionWorkerError if no worker has polled recently
 */
export async function requireWorker(client: Client): Promise<void> {
  if ((await readLastPollTime(client, SESSION_TASK_QUEUE)) === null) throw new NoSessionWorkerError();
}

/**
 * Answers a step and waits for the session's next result. A rejection is a result, too. A repeated answer gets its
 * first result.
 * @throws NoSuchSessionError
 */
export async function advanceSession(client: Client, session: string, given: GivenAnswer): Promise<SessionResult> {
  return await resolveAmongFamily(client, session, given, await deliverAnswer(client, session, given));
}

/** Sends the answer to the session, or to the session of the sub-skill that the step belongs to. */
async function deliverAnswer(
  client: Client,
  session: string,
  { turn, step, output }: GivenAnswer,
): Promise<SessionResult> {
  const large = findSizeProblem('the answer has', output);
  if (large !== null) return { kind: 'error', error: 'validation', step, message: large, retry: true };
  const child = await childOf(client, session, step);
  if (child !== null) {
    const inner = await deliverAnswer(client, child.session, { turn, step: step.slice(child.prefix.length), output });
    return await returnToCaller(client, session, child, inner);
  }
  const request: AdvanceRequest = { turn, step, output, key: keyOf(step, output) };
  try {
    return await followAnswer(client, session, await updateSession(client, session, SESSION_MESSAGES.advance, request));
  } catch (error) {
    const refused = refusalIn(error);
    if (refused !== null) return refused;
    if (error instanceof WorkflowNotFoundError)
      return (await findEarlierAnswer(client, session, request)) ?? (await readOverResult(client, session, step));
    throw failureOf(error);
  }
}

/**
 * Waits until no worker is busy for the session's clients, and returns the session's state then. @throws
 * NoSuchSessionError
 */
export async function settleSession(client: Client, session: string): Promise<SessionResult> {
  try {
    return await resolveAmongFamily(
      client,
      session,
      null,
      await followAnswer(client, session, await updateSession(client, session, SESSION_MESSAGES.settle, {})),
    );
  } catch (error) {
    if (isPassedBy(error)) return await readOverResult(client, session, '');
    throw failureOf(error);
  }
}

/** Returns the state of the session without changing it. @throws NoSuchSessionError */
export async function viewSession(client: Client, session: string): Promise<SessionView> {
  try {
    const handle = client.workflow.getHandle(session);
    const [view, { status }] = await Promise.all([
      handle.query(SESSION_MESSAGES.view) as Promise<SessionView>,
      handle.describe(),
    ]);
    if (status.name === 'TERMINATED') return withOutsideEnd(view);
    // A view shows every open prompt, also those of sub-skills.
    const inner = await Promise.all(view.childSessions.map((child) => innerView(client, child)));
    return inner.reduce(joinViews, view);
  } catch (error) {
    throw toNoSuchSessionError(session, error);
  }
}

/**
 * Returns the view of a called session with the addresses that its caller's clients use; null before the session
 * exists.
 */
async function innerView(client: Client, { session, prefix }: ChildSession): Promise<SessionView | null> {
  try {
    return prefixView(await viewSession(client, session), prefix);
  } catch (error) {
    if (error instanceof NoSuchSessionError) return null;
    throw error;
  }
}

/** Sub-skills that were called in parallel branches run side by side, and neither knows what the other asks. */
async function resolveAmongFamily(
  client: Client,
  session: string,
  given: GivenAnswer | null,
  result: SessionResult,
): Promise<SessionResult> {
  return mayConcernOthers(given, result) ? resolveInFamily(await viewSession(client, session), given, result) : result;
}

/** The program that ended the workflow did not tell the session, so the view must say that it is cancelled. */
function withOutsideEnd(view: SessionView): SessionView {
  const message = 'The session was ended from outside; it accepts no more answers.';
  return {
    ...view,
    status: 'cancelled',
    current: { kind: 'error', error: 'cancelled', step: '', message, retry: false },
    open: [],
    childSessions: [],
  };
}

/** @throws NoSuchSessionError */
export async function recordsOfSession(client: Client, session: string): Promise<SessionRecords> {
  try {
    return (await client.workflow.getHandle(session).query(SESSION_MESSAGES.records)) as SessionRecords;
  } catch (error) {
    throw toNoSuchSessionError(session, error);
  }
}

/** Asks it to stop and waits for its end; false when it had ended before. @throws NoSuchSessionError */
export async function cancelSession(client: Client, session: string): Promise<boolean> {
  if (!(await askSessionToStop(client, session))) return false;
  try {
    await client.workflow.getHandle(session).result();
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) throw new NoSuchSessionError(session);
    if (error instanceof WorkflowFailedError) return true;
    throw error;
  }
}

/** Like `cancelSession`, but does not wait for the session's worker, which may be away. */
export async function askSessionToStop(client: Client, session: string): Promise<boolean> {
  const handle = client.workflow.getHandle(session);
  try {
    const { status, type } = await handle.describe();
    if (type !== SESSION_WORKFLOW_TYPE) throw new NoSuchSessionError(session);
    if (status.name !== 'RUNNING') return false;
    await handle.cancel();
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) throw new NoSuchSessionError(session);
    throw error;
  }
}

async function childOf(client: Client, session: string, step: string): Promise<ChildSession | null> {
  // Only addresses of sub-skills contain a slash, so most answers need no query.
  if (!step.includes('/')) return null;
  const { childSessions } = await viewOf(client, session);
  return childSessions.find(({ prefix }) => step.startsWith(prefix)) ?? null;
}

async function viewOf(client: Client, session: string): Promise<SessionView> {
  try {
    return (await client.workflow.getHandle(session).query(SESSION_MESSAGES.view)) as SessionView;
  } catch (error) {
    throw toNoSuchSessionError(session, error);
  }
}

async function followAnswer(client: Client, session: string, answer: SessionAnswer): Promise<SessionResult> {
  if (answer.kind === 'answer') return answer.result;
  if (answer.kind === 'continued') return await settleSession(client, session);
  const { child } = answer;
  let inner: SessionResult;
  try {
    inner = await followAnswer(client, child.session, await settleCalled(client, session, child.session));
  } catch (error) {
    if (
      !(error instanceof WorkflowNotFoundError) &&
      refusalIn(error) === null &&
      !(error instanceof WorkflowUpdateFailedError)
    )
      throw error;
    inner = { kind: 'done', done: true, finalOutput: null };
  }
  return await returnToCaller(client, session, child, inner);
}

/**
 * Returns the result of a sub-skill's session as the caller's result. If the sub-skill is over, returns the caller's
 * next result.
 */
async function returnToCaller(
  client: Client,
  session: string,
  child: ChildSession,
  inner: SessionResult,
): Promise<SessionResult> {
  const isOver =
    inner.kind === 'done' ||
    (inner.kind === 'error' && (inner.error === 'failed' || inner.error === 'cancelled' || inner.error === 'limit'));
  if (!isOver) return prefixResult(inner, child.prefix);
  try {
    return await followAnswer(
      client,
      session,
      await updateSession(client, session, SESSION_MESSAGES.settle, { ended: child.session }),
    );
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return await readOverResult(client, session, '');
    throw failureOf(error);
  }
}

/** Returns the result that the same answer had before; for a session whose workflow has ended. */
async function findEarlierAnswer(
  client: Client,
  session: string,
  { turn, key }: AdvanceRequest,
): Promise<SessionResult | null> {
  try {
    const answer = (await client.workflow
      .getHandle(session)
      .query(SESSION_MESSAGES.answered, turn, key ?? '')) as SessionAnswer | null;
    return answer?.kind === 'answer' ? answer.result : null;
  } catch (error) {
    throw toNoSuchSessionError(session, error);
  }
}

/** Returns the last result of a session whose workflow has ended. @throws NoSuchSessionError */
async function readOverResult(client: Client, session: string, step: string): Promise<SessionResult> {
  const { current, status } = await viewSession(client, session);
  if (current === null) throw new NoSuchSessionError(session);
  if (step === '' || current.kind === 'error') return current;
  return {
    kind: 'error',
    error: 'order',
    step,
    message: `The session has ended (${status}); it accepts no more answers.`,
    retry: false,
  };
}

function keyOf(step: string, output: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify([step, output]))
    .digest('hex');
}
