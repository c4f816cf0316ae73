/** Sessions of this machine: on its own stack, or on your own Temporal server. */
import { randomUUID } from 'node:crypto';
import { isSessionId } from '../../domain/step-machine/session-id.ts';
import type { StepRecord } from '../../domain/step-machine/records.ts';
import { NoSuchSessionError } from '../../client/sessions/errors.ts';
import { eachSession, type ListedSession } from '../../client/sessions/list.ts';
import {
  advanceSession,
  cancelSession,
  recordsOfSession,
  requireWorker,
  settleSession,
  startSession,
  viewSession,
} from '../../client/sessions/sessions.ts';
import { handOverDuring } from '../../client/sessions/variables.ts';
import { listWaitingSessions } from '../../client/sessions/waiting-sessions.ts';
import type { ServerLink } from '../../client/temporal/server-link.ts';
import { readSessionHistory } from '../../store/open-session-stores.ts';
import { AppError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import type { SessionControl, SessionQuery } from './session-control.ts';
import { type SessionCodes, toSessionError } from './session-errors.ts';

/** The most sessions that a list looks at for a caller who may not see all. */
export const MOST_SCANNED = 10_000;

export function createLocalSessions(
  link: ServerLink,
  { env }: Pick<Machine, 'env'>,
  codes: SessionCodes,
): SessionControl {
  const attempt = async <T>(session: string, call: () => Promise<T>): Promise<T> => {
    try {
      if (!isSessionId(session)) throw new NoSuchSessionError(session);
      return await call();
    } catch (error) {
      throw toSessionError(error, codes);
    }
  };
  const attemptAny = async <T>(call: () => Promise<T>): Promise<T> => {
    try {
      return await call();
    } catch (error) {
      throw toSessionError(error, codes);
    }
  };
  const getClient = () => link.client();
  return {
    start: ({ session, request, onProgress }) =>
      attempt(session, async () => {
        if (!link.isEmbedded) await requireWorker(getClient());
        const opener = randomUUID();
        return await handOverDuring(env, { session, opener }, onProgress, () =>
          startSession(getClient(), session, { ...request, opener }),
        );
      }),
    advance: (session, answer) => attempt(session, () => advanceSession(getClient(), session, answer)),
    settle: (session) => attempt(session, () => settleSession(getClient(), session)),
    view: (session) => attempt(session, () => viewSession(getClient(), session)),
    findPage: (session) => link.runUrl(session),
    list: (query) => attemptAny(() => list(link, query)),
    listWaiting: ({ limit, isVisible }) =>
      attemptAny(async () => {
        await requireWorker(getClient());
        const bound = isVisible === undefined ? {} : { isVisible, mostScanned: MOST_SCANNED };
        return await listWaitingSessions(getClient(), { limit, ...bound });
      }),
    async *readHistory(session) {
      const { flushed, flushedRef, records } = await attempt(session, () => recordsOfSession(getClient(), session));
      if (flushedRef !== null) yield* readOlder(session, { ref: flushedRef, count: flushed }, env);
      yield* records;
    },
    cancel: (session) => attempt(session, () => cancelSession(getClient(), session)),
  };
}

async function list(link: ServerLink, { limit, state, isVisible }: SessionQuery): Promise<readonly ListedSession[]> {
  const found: ListedSession[] = [];
  let scanned = 0;
  for await (const listed of eachSession(link.client(), state === undefined ? {} : { state })) {
    if (isVisible?.(listed.session) !== false) found.push(listed);
    scanned += 1;
    if (found.length >= limit || (isVisible !== undefined && scanned >= MOST_SCANNED)) break;
  }
  return found;
}

async function* readOlder(
  session: string,
  { ref, count }: { readonly ref: string; readonly count: number },
  env: Machine['env'],
): AsyncGenerator<StepRecord> {
  try {
    for await (const records of readSessionHistory(env, { session, ref })) yield* records;
  } catch (error) {
    throw new AppError(
      'environment',
      'cli/elsewhere',
      (error as Error).message,
      `The ${count} older records are on the worker's host: run the command there.`,
    );
  }
}
