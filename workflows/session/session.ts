/** The workflow of a session: opens it, then carries out the commands of the engine until the session is over. */
import {
  allHandlersFinished,
  ApplicationFailure,
  CancellationScope,
  condition,
  defineQuery,
  defineUpdate,
  log,
  makeContinueAsNewFunc,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type {
  AdvanceRequest,
  OpenedSession,
  SessionAnswer,
  SessionCarried,
  SessionRecords,
  SessionRequest,
  SessionView,
} from '../../activities/contract-session.ts';
import { currentResult } from '../../domain/step-machine/reply.ts';
import { recordsOf } from '../../domain/step-machine/records.ts';
import { findSizeProblem } from '../../domain/step-machine/size-limits.ts';
import { reasonOf } from '../activity-outcome.ts';
import { workflowCancelled, workflowFailure } from '../failure.ts';
import { SESSION_MESSAGES, SESSION_REFUSED, SESSION_STARTED_AT_MEMO } from '../messages.ts';
import { setAttributes } from '../search-attributes.ts';
import { summaryOf } from '../summary.ts';
import type { UnreadablePayload } from '../payload-converter.ts';
import { closing, localActivities } from './calls.ts';
import { readWorkflowIdentity, SessionLoop } from './loop.ts';
import { refusalOf } from './admission.ts';
import { createOpeningView, viewOf } from './view.ts';

const advanceUpdate = defineUpdate<SessionAnswer, [AdvanceRequest]>(SESSION_MESSAGES.advance);
const settleUpdate = defineUpdate<SessionAnswer, [{ readonly ended?: string }?]>(SESSION_MESSAGES.settle);
const viewQuery = defineQuery<SessionView>(SESSION_MESSAGES.view);
const answeredQuery = defineQuery<SessionAnswer | null, [number, string]>(SESSION_MESSAGES.answered);
const recordsQuery = defineQuery<SessionRecords>(SESSION_MESSAGES.records);

/**
 * @returns the final output
 * @throws ApplicationFailure whose type is an error code, if the session could not be opened or failed
 */
export async function voidboxSession(
  given: SessionRequest | SessionCarried,
): Promise<{ readonly finalOutput: unknown }> {
  const outer = CancellationScope.current();
  return CancellationScope.nonCancellable(async () => {
    // An update may come with the first task, so handlers are set before the first await, and a carried session resumes
    // before that.
    let loop = isCarried(given) ? SessionLoop.resume(given) : null;
    const opening = loop === null ? open(given) : Promise.resolve(loop);
    let refused: ApplicationFailure | null = null;
    setHandler(viewQuery, () => (loop === null ? createOpeningView(workflowInfo().workflowId, refused) : viewOf(loop)));
    setHandler(recordsQuery, () => recordsOfLoop(loop));
    setHandler(answeredQuery, (turn, key) => {
      const taken = loop?.takenAnswer(turn) ?? null;
      return taken?.key === key ? taken.answer : null;
    });
    // The server cannot cancel work that handlers begin: the session learns of the cancel, ends its work and replies to
    // waiting clients.
    setHandler(settleUpdate, (request) =>
      CancellationScope.nonCancellable(async () => (await opening).settle(request?.ended)),
    );
    setHandler(
      advanceUpdate,
      (request) => CancellationScope.nonCancellable(async () => (await opening).advance(request)),
      {
        validator: (request) => refuse(refusalOf(loop, request)),
      },
    );
    loop = await settleOpening(opening, (failure) => {
      refused = failure;
      setCurrentDetails(`Could not be opened: ${failure.message}`);
    });
    const running = loop;
    outer.cancelRequested.catch(() => running.cancel('it was cancelled by a client'));
    return await concludeSession(running);
  });
}

/** Waits for the opening. If it fails, clients that wait in a handler get the failure first. */
async function settleOpening(
  opening: Promise<SessionLoop>,
  onFailure: (failure: ApplicationFailure) => void,
): Promise<SessionLoop> {
  try {
    return await opening;
  } catch (error) {
    if (error instanceof ApplicationFailure) onFailure(error);
    await condition(allHandlersFinished);
    throw error;
  }
}

async function open(given: unknown): Promise<SessionLoop> {
  if (isRecord(given) && 'unreadable' in given)
    throw workflowFailure(
      'skill/params',
      `the argument can't be read: ${(given as unknown as UnreadablePayload).unreadable}`,
    );
  const session = workflowInfo().workflowId;
  const request = (isRecord(given) ? given : {}) as unknown as SessionRequest;
  const large = findSizeProblem('the params have', request.params);
  if (large !== null) throw workflowFailure('skill/params', large);
  let opened: OpenedSession;
  try {
    opened = await localActivities.openSession.executeWithOptions({ summary: summaryOf(String(request.skill)) }, [
      { session, request, ...readWorkflowIdentity() },
    ]);
  } catch (error) {
    const { code, message } = reasonOf(error);
    throw workflowFailure(code, message);
  }
  setAttributes(opened.searchAttributes, { name: opened.code.skill, state: 'running' });
  return SessionLoop.start(session, request, opened);
}

async function concludeSession(loop: SessionLoop): Promise<{ readonly finalOutput: unknown }> {
  const end = await loop.toEnd();
  await condition(allHandlersFinished);
  if (end.kind === 'carry') {
    // Lists show only the start of the latest run, so a memo keeps the start of the first.
    const memo = { [SESSION_STARTED_AT_MEMO]: loop.state.startedAtMs };
    return await makeContinueAsNewFunc<typeof voidboxSession>({ memo })(end.carried);
  }
  const { status } = loop.state;
  if (loop.opened.variables === true && !loop.isCalled) await dropVariables(loop.state.session);
  setAttributes(loop.opened.searchAttributes, {
    state: status.kind === 'done' ? 'succeeded' : status.kind === 'cancelled' ? 'cancelled' : 'failed',
  });
  switch (status.kind) {
    case 'done':
      return { finalOutput: status.finalOutput };
    case 'cancelled':
      throw workflowCancelled(`the session was cancelled: ${status.reason}`);
    case 'failed':
      throw workflowFailure(
        'session/failed',
        `step "${status.step}": ${status.error.message}`,
        currentResult(loop.state),
      );
    case 'redirected':
    case 'new':
    case 'open':
      throw workflowFailure('internal/bug', `the session ended while it was ${status.kind}`);
  }
}

async function dropVariables(session: string): Promise<void> {
  try {
    await closing.closeSession({ session, ...readWorkflowIdentity() });
  } catch (error) {
    log.warn(`values of variables were not dropped: ${reasonOf(error).message}`);
  }
}

function recordsOfLoop(loop: SessionLoop | null): SessionRecords {
  if (loop === null) return { flushed: 0, flushedRef: null, records: [] };
  const { records } = loop.state;
  return { flushed: records.flushed, flushedRef: records.flushedRef, records: [...recordsOf(records)] };
}

function refuse(result: ReturnType<typeof refusalOf>): void {
  if (result !== null)
    throw workflowFailure(SESSION_REFUSED, 'message' in result ? result.message : result.kind, result);
}

/** The argument of a client is always a request, whatever it contains. */
function isCarried(given: unknown): given is SessionCarried {
  return isRecord(given) && given['carried'] === 1 && workflowInfo().continuedFromExecutionRunId !== undefined;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
