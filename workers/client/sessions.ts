/** What a client does with sessions of step machines: start, answer, look, cancel. Follows into sub-skills by itself. */
import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
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
import type { AdvanceRequest, ChildSession, SessionAnswer, SessionRecords, SessionRequest, SessionView } from '../../activities/contract-session.ts';
import type { CliResult, OpenStep, PromptResult } from '../../domain/step-machine/result.ts';
import { tooLarge } from '../../domain/step-machine/size-limits.ts';
import { SESSION_MESSAGES, SESSION_REFUSED, SESSION_STARTED_AT_MEMO, SESSION_TASK_QUEUE, SESSION_WORKFLOW_TYPE } from '../../workflows/messages.ts';

/** A session that begins its history anew is away for this long at most. */
const GAP_TRIES = 20;
const GAP_MS = 100;
/** Of gRPC. */
const RESOURCE_EXHAUSTED = 8;
const FAILED_PRECONDITION = 9;
/** Of the server's API. */
const TASK_QUEUE_TYPE_WORKFLOW = 1;

/** The session could not be opened, or has failed: `code` is one of the error codes. */
export class SessionFailedError extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.name = 'SessionFailedError';
    this.code = code;
  }
}

export class SessionExistsError extends Error {
  constructor(session: string) {
    super(`a session ${session} exists already`);
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
export async function startSession(client: Client, session: string, request: SessionRequest): Promise<CliResult> {
  // The server answers nobody who sends more than it takes.
  const large = tooLarge('the params have', request.params);
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
    throw failureOf(error);
  }
}

export class NoSessionWorkerError extends Error {
  constructor() {
    super(`no worker takes sessions from the task queue ${SESSION_TASK_QUEUE}`);
    this.name = 'NoSessionWorkerError';
  }
}

/** A start would wait for one in silence. @throws NoSessionWorkerError when none has asked for work of late */
export async function requireWorker(client: Client): Promise<void> {
  const { pollers } = await client.workflowService.describeTaskQueue({
    namespace: client.options.namespace,
    taskQueue: { name: SESSION_TASK_QUEUE },
    taskQueueType: TASK_QUEUE_TYPE_WORKFLOW,
  });
  if ((pollers ?? []).length === 0) throw new NoSessionWorkerError();
}

export interface GivenAnswer {
  readonly turn: number;
  /** With the prefix of its sub-skill. */
  readonly step: string;
  readonly output: unknown;
}

/**
 * Waits until the session has gone on. A refusal is a result like any other. The same answer, sent again, gets what it got.
 * @throws NoSuchSessionError
 */
export async function advanceSession(client: Client, session: string, given: GivenAnswer): Promise<CliResult> {
  return await amongOthers(client, session, given, await answeredBy(client, session, given));
}

/** The session, or that of the sub-skill that the step belongs to. */
async function answeredBy(client: Client, session: string, { turn, step, output }: GivenAnswer): Promise<CliResult> {
  const large = tooLarge('the answer has', output);
  if (large !== null) return { kind: 'error', error: 'validation', step, message: large, retry: true };
  const child = await childOf(client, session, step);
  if (child !== null) {
    const inner = await answeredBy(client, child.session, { turn, step: step.slice(child.prefix.length), output });
    return await returned(client, session, child, inner);
  }
  const request: AdvanceRequest = { turn, step, output, key: keyOf(step, output) };
  try {
    return await followed(client, session, await update(client, session, SESSION_MESSAGES.advance, request));
  } catch (error) {
    const refused = refusalIn(error);
    if (refused !== null) return refused;
    if (error instanceof WorkflowNotFoundError) return (await answeredBefore(client, session, request)) ?? (await overResult(client, session, step));
    throw failureOf(error);
  }
}

/** Waits until nobody works for the session's clients, and says how it stands then. @throws NoSuchSessionError */
export async function settleSession(client: Client, session: string): Promise<CliResult> {
  try {
    return await amongOthers(client, session, null, await followed(client, session, await update(client, session, SESSION_MESSAGES.settle, {})));
  } catch (error) {
    const isOver = error instanceof WorkflowNotFoundError || (error instanceof WorkflowUpdateFailedError && isClosing(error.cause));
    if (isOver) return await overResult(client, session, '');
    throw failureOf(error);
  }
}

/** How the session stands, without moving it. @throws NoSuchSessionError */
export async function viewSession(client: Client, session: string): Promise<SessionView> {
  try {
    const handle = client.workflow.getHandle(session);
    const [view, { status }] = await Promise.all([handle.query(SESSION_MESSAGES.view) as Promise<SessionView>, handle.describe()]);
    if (status.name === 'TERMINATED') return endedFromOutside(view);
    // Whoever looks at a session sees what is to be answered, wherever it runs.
    const inner = await Promise.all(view.childSessions.map((child) => innerView(client, child)));
    return inner.reduce(joinedViews, view);
  } catch (error) {
    throw noSuchSession(session, error);
  }
}

/** With the addresses that its caller's clients use; null while it is not there. */
async function innerView(client: Client, { session, prefix }: ChildSession): Promise<SessionView | null> {
  try {
    const view = await viewSession(client, session);
    return {
      ...view,
      current: view.current === null ? null : prefixed(view.current, prefix),
      open: view.open.map((one) => ({ ...one, step: prefix + one.step })),
      last: view.last === null ? null : { ...view.last, step: prefix + view.last.step },
    };
  } catch (error) {
    if (error instanceof NoSuchSessionError) return null;
    throw error;
  }
}

function joinedViews(view: SessionView, inner: SessionView | null): SessionView {
  if (inner === null) return view;
  const { current } = view;
  const isAsking = current?.kind === 'prompt';
  const isInner = inner.current?.kind === 'prompt' || current === null || (current.kind === 'error' && current.error === 'busy');
  return {
    ...view,
    current: isAsking ? withOpen(current, promptsIn(inner.current)) : isInner ? inner.current : current,
    open: [...view.open, ...inner.open],
    last: isAsking ? view.last : (inner.last ?? view.last),
  };
}

function promptsIn(result: CliResult | null): readonly OpenStep[] {
  if (result?.kind !== 'prompt' || result.turn === undefined) return [];
  const { step, prompt, schema, turn, open = [] } = result;
  return [{ step, prompt, schema, turn }, ...open];
}

function withOpen(result: PromptResult, others: readonly OpenStep[]): PromptResult {
  const open = [...(result.open ?? []), ...others.filter(({ step }) => step !== result.step && !result.open?.some((one) => one.step === step))];
  return open.length === 0 ? result : { ...result, open };
}

/**
 * What one session of several answered, in the light of the others: sub-skills that were called in parallel branches run side
 * by side, and neither knows what the other asks.
 */
async function amongOthers(client: Client, session: string, given: GivenAnswer | null, result: CliResult): Promise<CliResult> {
  const isRefused = given !== null && result.kind === 'error' && result.error === 'order';
  // Most sessions call nothing, and are not asked.
  const isCalled = given?.step.includes('/') === true || (result.kind === 'prompt' && result.step.includes('/'));
  if (!isRefused && result.kind !== 'waiting' && !(result.kind === 'prompt' && isCalled)) return result;
  const { current, open, childSessions, status } = await viewSession(client, session);
  if (childSessions.length === 0 || status !== 'open') return result;
  if (result.kind === 'prompt') return withOpen(result, promptsIn(current));
  if (result.kind === 'waiting') {
    const { completed, autoAdvanced } = result;
    return current?.kind === 'prompt' ? { ...current, ...(completed && { completed }), ...(autoAdvanced && { autoAdvanced }) } : result;
  }
  if (given === null) return result;
  const due = open.filter(({ phase }) => phase === 'asking' || phase === 'stuck').map((one) => `turn ${one.turn} of step "${one.step}"`);
  if (due.length === 0) return result;
  const { step, turn } = given;
  const what = open.some((one) => one.step === step)
    ? `Turn ${turn} of step "${step}" is not current: it was answered before, or never asked.`
    : `Step "${step}" is not the current step.`;
  return result.kind === 'error' ? { ...result, message: `${what} Due: ${due.join(', ')}.` } : result;
}

/** What ended it did not tell it. */
function endedFromOutside(view: SessionView): SessionView {
  const message = 'The session was ended from outside; nothing can be answered any more.';
  return { ...view, status: 'cancelled', current: { kind: 'error', error: 'cancelled', step: '', message, retry: false }, open: [], childSessions: [] };
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
  const handle = client.workflow.getHandle(session);
  try {
    const { status, type } = await handle.describe();
    if (type !== SESSION_WORKFLOW_TYPE) throw new NoSuchSessionError(session);
    if (status.name !== 'RUNNING') return false;
    await handle.cancel();
    await handle.result();
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) throw new NoSuchSessionError(session);
    if (error instanceof WorkflowFailedError) return true;
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
  const running = state === 'open' ? ` AND ExecutionStatus = 'Running'` : '';
  for await (const one of client.workflow.list({ query: `WorkflowType = '${SESSION_WORKFLOW_TYPE}'${running}` })) {
    if (one.status.name === 'CONTINUED_AS_NEW' || one.workflowId.includes('~')) continue;
    const listed: ListedSession = {
      session: one.workflowId,
      skill: one.typedSearchAttributes.getAll().flatMap(({ key, value }) => (key.name === 'VoidboxName' ? [String(value)] : []))[0] ?? null,
      state: STATES[one.status.name] ?? 'failed',
      startedAtMs: (one.memo?.[SESSION_STARTED_AT_MEMO] as number | undefined) ?? one.startTime.getTime(),
      endedAtMs: one.closeTime?.getTime() ?? null,
    };
    if (state !== undefined && listed.state !== state) continue;
    if (skill !== undefined && listed.skill !== null && listed.skill !== skill) continue;
    found.push(listed);
    if (found.length >= limit) break;
  }
  return found;
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

async function followed(client: Client, session: string, answer: SessionAnswer): Promise<CliResult> {
  if (answer.kind === 'answer') return answer.result;
  if (answer.kind === 'continued') return await settleSession(client, session);
  const { child } = answer;
  let inner: CliResult;
  try {
    inner = await followed(client, child.session, await update(client, child.session, SESSION_MESSAGES.settle, {}));
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError) && refusalIn(error) === null && !(error instanceof WorkflowUpdateFailedError)) throw error;
    inner = { kind: 'done', done: true, finalOutput: null };
  }
  return await returned(client, session, child, inner);
}

/** What a sub-skill's session answered, as its caller's; when it is over, what its caller goes on with. */
async function returned(client: Client, session: string, child: ChildSession, inner: CliResult): Promise<CliResult> {
  const isOver = inner.kind === 'done' || (inner.kind === 'error' && (inner.error === 'failed' || inner.error === 'cancelled' || inner.error === 'limit'));
  if (!isOver) return prefixed(inner, child.prefix);
  try {
    return await followed(client, session, await update(client, session, SESSION_MESSAGES.settle, { ended: child.session }));
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return await overResult(client, session, '');
    throw failureOf(error);
  }
}

function prefixed(result: CliResult, prefix: string): CliResult {
  if (result.kind === 'done' || result.kind === 'redirect') return result;
  const named = { ...result, step: prefix + result.step };
  if (named.kind !== 'prompt') return named;
  const completed = named.completed === undefined ? {} : { completed: { ...named.completed, step: prefix + named.completed.step } };
  const open = named.open === undefined ? {} : { open: named.open.map((one): OpenStep => ({ ...one, step: prefix + one.step })) };
  return { ...named, ...completed, ...open };
}

/** One update. Between two runs of a session's workflow there is a moment in which nobody takes it: then it is sent again. */
async function update(client: Client, session: string, name: string, argument: Partial<AdvanceRequest> & { readonly ended?: string }): Promise<SessionAnswer> {
  const handle = client.workflow.getHandle(session);
  for (let tries = 1; ; tries += 1) {
    try {
      return (await handle.executeUpdate(name, { args: [argument], updateId: randomUUID() })) as SessionAnswer;
    } catch (error) {
      const crowded = crowdedAnswer(error, argument.step ?? '');
      if (crowded !== null) return crowded;
      if (refusalIn(error) !== null || tries >= GAP_TRIES || !(isOverrun(error) || (await isBetweenRuns(client, session, error)))) throw error;
      await sleep(GAP_MS);
    }
  }
}

/** The server takes only so many updates of one run, at once and in all: 10 and 2,000, unless it is set otherwise. */
function crowdedAnswer(error: unknown, step: string): SessionAnswer | null {
  const { code, details } = (error instanceof Error ? (error.cause as { readonly code?: unknown; readonly details?: unknown } | undefined) : null) ?? {};
  const words = String(details);
  const isFull = code === FAILED_PRECONDITION && words.includes('total number of distinct updates');
  if (!isFull && !(code === RESOURCE_EXHAUSTED && words.includes('in-flight updates'))) return null;
  const until = isFull ? 'its history begins anew, when the actions and sub-skills that are under way have ended' : 'another one has its reply';
  const message = `The server takes no more updates of this session until ${until}; the answer was not taken. Give it again then. It says: ${words}`;
  return { kind: 'answer', result: { kind: 'error', error: 'busy', step, message, retry: true } };
}

/** The workflow was to end with this update when it was cancelled: the server has it begin again from before the update, without it. */
function isOverrun(error: unknown): boolean {
  const { cause } = error instanceof Error ? (error as { readonly cause?: { readonly code?: unknown; readonly details?: unknown } }) : {};
  return cause?.code === FAILED_PRECONDITION && String(cause.details).includes('unexpected workflow task failure');
}

async function isBetweenRuns(client: Client, session: string, error: unknown): Promise<boolean> {
  const isGap = error instanceof WorkflowNotFoundError || (error instanceof WorkflowUpdateFailedError && isClosing(error.cause));
  if (!isGap) return false;
  try {
    return (await client.workflow.getHandle(session).describe()).status.name === 'RUNNING';
  } catch (described) {
    if (described instanceof WorkflowNotFoundError) return false;
    throw described;
  }
}

/** The server's own words for an update that its workflow's run did not live to finish. */
function isClosing(cause: unknown): boolean {
  return cause instanceof ApplicationFailure && (cause.type === 'AcceptedUpdateCompletedWorkflow' || cause.type === 'WorkflowClosing');
}

function refusalIn(error: unknown): CliResult | null {
  if (!(error instanceof WorkflowUpdateFailedError)) return null;
  const { cause } = error;
  return cause instanceof ApplicationFailure && cause.type === SESSION_REFUSED ? ((cause.details?.[0] as CliResult | undefined) ?? null) : null;
}

/** Of a session whose workflow has ended: what the same answer got when it was taken. */
async function answeredBefore(client: Client, session: string, { turn, key }: AdvanceRequest): Promise<CliResult | null> {
  try {
    const answer = (await client.workflow.getHandle(session).query(SESSION_MESSAGES.answered, turn, key ?? '')) as SessionAnswer | null;
    return answer?.kind === 'answer' ? answer.result : null;
  } catch (error) {
    throw noSuchSession(session, error);
  }
}

/** Of a session whose workflow has ended. @throws NoSuchSessionError */
async function overResult(client: Client, session: string, step: string): Promise<CliResult> {
  const { current, status } = await viewSession(client, session);
  if (current === null) throw new NoSuchSessionError(session);
  if (step === '' || current.kind === 'error') return current;
  return { kind: 'error', error: 'order', step, message: `The session is over (${status}); nothing can be answered any more.`, retry: false };
}

function failureOf(error: unknown): unknown {
  const cause = error instanceof WorkflowUpdateFailedError || error instanceof WorkflowFailedError ? error.cause : undefined;
  if (cause instanceof ApplicationFailure) return new SessionFailedError(cause.type ?? 'internal/bug', cause.message);
  if (cause instanceof CancelledFailure || cause instanceof TerminatedFailure) return new SessionFailedError('session/failed', cause.message);
  return error;
}

/** A workflow of another type has the id, or none. Anything else is what it was. */
function noSuchSession(session: string, error: unknown): unknown {
  return error instanceof WorkflowNotFoundError || error instanceof QueryNotRegisteredError ? new NoSuchSessionError(session) : error;
}

function keyOf(step: string, output: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify([step, output]))
    .digest('hex');
}
