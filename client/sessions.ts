/** What a client does with sessions of step machines: start, answer, look, cancel. Follows into sub-skills by itself. */
import { createHash, randomUUID } from 'node:crypto';
import {
  ApplicationFailure,
  CancelledFailure,
  TerminatedFailure,
  type Client,
  QueryNotRegisteredError,
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
} from '../activities/contract-session.ts';
import { lastPollMs } from './pollers.ts';
import { type AnyErrorCode, toErrorCode } from '../domain/errors/error-code.ts';
import type { SessionResult } from '../domain/step-machine/result.ts';
import { isCalledSession } from '../domain/step-machine/session-id.ts';
import { sizeProblem } from '../domain/step-machine/size-limits.ts';
import {
  SEARCH_ATTRIBUTES,
  SESSION_MESSAGES,
  SESSION_STARTED_AT_MEMO,
  SESSION_TASK_QUEUE,
  SESSION_WORKFLOW_TYPE,
} from '../workflows/messages.ts';
import { concernsOthers, type GivenAnswer, inFamily, joinViews, prefixResult, prefixView } from './session-family.ts';
import { isClosing, refusalIn, settleCalled, updateSession } from './session-update.ts';

/** The session could not be opened, or has failed: `code` is one of the error codes. */
export class SessionFailedError extends Error {
  readonly code: AnyErrorCode;
  constructor(code: AnyErrorCode, message: string) {
    super(message);
    this.name = 'SessionFailedError';
    this.code = code;
  }
}

export class SessionExistsError extends Error {
  constructor(session: string) {
    super(`session ${session} already exists`);
    this.name = 'SessionExistsError';
  }
}

export class NoSuchSessionError extends Error {
  constructor(session: string) {
    super(`there is no session ${session}`);
    this.name = 'NoSuchSessionError';
  }
}

/** Starts a session and waits for its first prompt. @throws SessionExistsError, SessionFailedError */
export async function startSession(client: Client, session: string, request: SessionRequest): Promise<SessionResult> {
  // The server answers nobody who sends more than it takes.
  const large = sizeProblem('the params have', request.params);
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
    return await amongOthers(client, session, null, await followed(client, session, answer));
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) throw new SessionExistsError(session);
    throw isPassedBy(error) ? ((await endOfSession(client, session)) ?? failureOf(error)) : failureOf(error);
  }
}

/** The workflow had ended before it heard of the update: what the server says then is no reason. */
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

export class NoSessionWorkerError extends Error {
  constructor() {
    super(`no worker polls the session task queue ${SESSION_TASK_QUEUE}`);
    this.name = 'NoSessionWorkerError';
  }
}

/** A start would wait for one in silence. @throws NoSessionWorkerError when none has asked for work of late */
export async function requireWorker(client: Client): Promise<void> {
  if ((await lastPollMs(client, SESSION_TASK_QUEUE)) === null) throw new NoSessionWorkerError();
}

/**
 * Waits until the session has gone on. A refusal is a result like any other. The same answer, sent again, gets what it got.
 * @throws NoSuchSessionError
 */
export async function advanceSession(client: Client, session: string, given: GivenAnswer): Promise<SessionResult> {
  return await amongOthers(client, session, given, await answeredBy(client, session, given));
}

/** The session, or that of the sub-skill that the step belongs to. */
async function answeredBy(
  client: Client,
  session: string,
  { turn, step, output }: GivenAnswer,
): Promise<SessionResult> {
  const large = sizeProblem('the answer has', output);
  if (large !== null) return { kind: 'error', error: 'validation', step, message: large, retry: true };
  const child = await childOf(client, session, step);
  if (child !== null) {
    const inner = await answeredBy(client, child.session, { turn, step: step.slice(child.prefix.length), output });
    return await returned(client, session, child, inner);
  }
  const request: AdvanceRequest = { turn, step, output, key: keyOf(step, output) };
  try {
    return await followed(client, session, await updateSession(client, session, SESSION_MESSAGES.advance, request));
  } catch (error) {
    const refused = refusalIn(error);
    if (refused !== null) return refused;
    if (error instanceof WorkflowNotFoundError)
      return (await answeredBefore(client, session, request)) ?? (await overResult(client, session, step));
    throw failureOf(error);
  }
}

/** Waits until nobody works for the session's clients, and says how it stands then. @throws NoSuchSessionError */
export async function settleSession(client: Client, session: string): Promise<SessionResult> {
  try {
    return await amongOthers(
      client,
      session,
      null,
      await followed(client, session, await updateSession(client, session, SESSION_MESSAGES.settle, {})),
    );
  } catch (error) {
    if (isPassedBy(error)) return await overResult(client, session, '');
    throw failureOf(error);
  }
}

/** How the session stands, without moving it. @throws NoSuchSessionError */
export async function viewSession(client: Client, session: string): Promise<SessionView> {
  try {
    const handle = client.workflow.getHandle(session);
    const [view, { status }] = await Promise.all([
      handle.query(SESSION_MESSAGES.view) as Promise<SessionView>,
      handle.describe(),
    ]);
    if (status.name === 'TERMINATED') return endedFromOutside(view);
    // Whoever looks at a session sees what is to be answered, wherever it runs.
    const inner = await Promise.all(view.childSessions.map((child) => innerView(client, child)));
    return inner.reduce(joinViews, view);
  } catch (error) {
    throw noSuchSession(session, error);
  }
}

/** With the addresses that its caller's clients use; null while it is not there. */
async function innerView(client: Client, { session, prefix }: ChildSession): Promise<SessionView | null> {
  try {
    return prefixView(await viewSession(client, session), prefix);
  } catch (error) {
    if (error instanceof NoSuchSessionError) return null;
    throw error;
  }
}

/** Sub-skills that were called in parallel branches run side by side, and neither knows what the other asks. */
async function amongOthers(
  client: Client,
  session: string,
  given: GivenAnswer | null,
  result: SessionResult,
): Promise<SessionResult> {
  return concernsOthers(given, result) ? inFamily(await viewSession(client, session), given, result) : result;
}

/** What ended it did not tell it. */
function endedFromOutside(view: SessionView): SessionView {
  const message = 'The session was ended from outside; it takes no more answers.';
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
    throw noSuchSession(session, error);
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

/** As `cancelSession`, without waiting for its worker, which may be away. */
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

export type SessionListState = 'open' | 'done' | 'failed' | 'cancelled';

export interface ListedSession {
  readonly session: string;
  /** Null where the server does not know our search attributes. */
  readonly skill: string | null;
  readonly state: SessionListState;
  readonly startedAtMs: number;
  readonly endedAtMs: number | null;
}

/** Latest first; sessions of sub-skills are part of those that call them and left out. */
export async function listSessions(
  client: Client,
  { limit, state, skill }: { readonly limit: number; readonly state?: SessionListState; readonly skill?: string },
): Promise<ListedSession[]> {
  const found: ListedSession[] = [];
  if (limit < 1) return found;
  for await (const listed of eachSession(client, { ...(state && { state }), ...(skill !== undefined && { skill }) })) {
    found.push(listed);
    if (found.length >= limit) break;
  }
  return found;
}

/** As `listSessions`, one by one. */
export async function* eachSession(
  client: Client,
  { state, skill }: { readonly state?: SessionListState; readonly skill?: string },
): AsyncGenerator<ListedSession, void, void> {
  const running = state === 'open' ? ` AND ExecutionStatus = 'Running'` : '';
  for await (const one of client.workflow.list({ query: `WorkflowType = '${SESSION_WORKFLOW_TYPE}'${running}` })) {
    if (one.status.name === 'CONTINUED_AS_NEW' || isCalledSession(one.workflowId)) continue;
    const listed: ListedSession = {
      session: one.workflowId,
      skill:
        one.typedSearchAttributes
          .getAll()
          .flatMap(({ key, value }) => (key.name === SEARCH_ATTRIBUTES.name ? [String(value)] : []))[0] ?? null,
      state: STATES[one.status.name] ?? 'failed',
      startedAtMs: (one.memo?.[SESSION_STARTED_AT_MEMO] as number | undefined) ?? one.startTime.getTime(),
      endedAtMs: one.closeTime?.getTime() ?? null,
    };
    if (state !== undefined && listed.state !== state) continue;
    if (skill !== undefined && listed.skill !== null && listed.skill !== skill) continue;
    yield listed;
  }
}

const STATES: Readonly<Record<string, SessionListState>> = {
  RUNNING: 'open',
  PAUSED: 'open',
  COMPLETED: 'done',
  CANCELLED: 'cancelled',
  TERMINATED: 'cancelled',
};

async function childOf(client: Client, session: string, step: string): Promise<ChildSession | null> {
  // Addresses of sub-skills have a slash; most answers need not ask.
  if (!step.includes('/')) return null;
  const { childSessions } = await viewOf(client, session);
  return childSessions.find(({ prefix }) => step.startsWith(prefix)) ?? null;
}

async function viewOf(client: Client, session: string): Promise<SessionView> {
  try {
    return (await client.workflow.getHandle(session).query(SESSION_MESSAGES.view)) as SessionView;
  } catch (error) {
    throw noSuchSession(session, error);
  }
}

async function followed(client: Client, session: string, answer: SessionAnswer): Promise<SessionResult> {
  if (answer.kind === 'answer') return answer.result;
  if (answer.kind === 'continued') return await settleSession(client, session);
  const { child } = answer;
  let inner: SessionResult;
  try {
    inner = await followed(client, child.session, await settleCalled(client, session, child.session));
  } catch (error) {
    if (
      !(error instanceof WorkflowNotFoundError) &&
      refusalIn(error) === null &&
      !(error instanceof WorkflowUpdateFailedError)
    )
      throw error;
    inner = { kind: 'done', done: true, finalOutput: null };
  }
  return await returned(client, session, child, inner);
}

/** What a sub-skill's session answered, as its caller's; when it is over, what its caller goes on with. */
async function returned(
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
    return await followed(
      client,
      session,
      await updateSession(client, session, SESSION_MESSAGES.settle, { ended: child.session }),
    );
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return await overResult(client, session, '');
    throw failureOf(error);
  }
}

/** Of a session whose workflow has ended: what the same answer got when it was taken. */
async function answeredBefore(
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
    throw noSuchSession(session, error);
  }
}

/** Of a session whose workflow has ended. @throws NoSuchSessionError */
async function overResult(client: Client, session: string, step: string): Promise<SessionResult> {
  const { current, status } = await viewSession(client, session);
  if (current === null) throw new NoSuchSessionError(session);
  if (step === '' || current.kind === 'error') return current;
  return {
    kind: 'error',
    error: 'order',
    step,
    message: `The session has ended (${status}); it takes no more answers.`,
    retry: false,
  };
}

function failureOf(error: unknown): unknown {
  const cause =
    error instanceof WorkflowUpdateFailedError || error instanceof WorkflowFailedError ? error.cause : undefined;
  if (cause instanceof ApplicationFailure) return new SessionFailedError(toErrorCode(cause.type), cause.message);
  if (cause instanceof CancelledFailure || cause instanceof TerminatedFailure)
    return new SessionFailedError('session/failed', cause.message);
  return error;
}

/** A workflow of another type has the id, or none. Anything else is what it was. */
function noSuchSession(session: string, error: unknown): unknown {
  return error instanceof WorkflowNotFoundError || error instanceof QueryNotRegisteredError
    ? new NoSuchSessionError(session)
    : error;
}

function keyOf(step: string, output: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify([step, output]))
    .digest('hex');
}
