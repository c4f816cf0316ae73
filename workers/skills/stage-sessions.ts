/** Sessions for stages: the worker is a client of its own server, and identifies the code of its skills. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { SessionEnded, SessionStanding, StageSessions } from '../../activities/ports/stage-sessions.ts';
import { handOverDuring } from '../../client/sessions/variables.ts';
import { NoSuchSessionError, SessionExistsError, SessionFailedError } from '../../client/sessions/errors.ts';
import {
  advanceSession,
  cancelSession,
  settleSession,
  startSession,
  viewSession,
} from '../../client/sessions/sessions.ts';
import { openSessionVariables } from '../../store/open-session-stores.ts';
import { isUnavailable } from '../../client/temporal/unavailable.ts';
import type { Log } from '../log.ts';
import type { RunningSkillHost } from './skill-host.ts';

const AGAIN_MS = 1_000;

export interface StageSessionsOptions {
  readonly client: Client;
  readonly stateDir: string;
  readonly skills: Pick<RunningSkillHost, 'identify'>;
  readonly log: Log;
}

export function createStageSessions({ client, stateDir, skills, log }: StageSessionsOptions): StageSessions {
  return {
    identify: (path) => skills.identify(path),

    start: (session, { code, params, agentHost, variables }, signal) =>
      readStanding(session, signal, async () => {
        const { skill, version, codeHash } = code;
        // The next worker repeats this start.
        const opener = await openSessionVariables({ stateDir }).nameOpener(session);
        const request = { skill, version, codeHash, params, opener, handshake: { host: agentHost } };
        const logLine = (line: string): void => log('info', `session ${session}: ${line}`);
        try {
          return await handOverDuring({ stateDir, variables, undecodable: [] }, { session, opener }, logLine, () =>
            startSession(client, session, request),
          );
        } catch (error) {
          if (!(error instanceof SessionExistsError)) throw error;
          const { codeHash: running } = await viewSession(client, session);
          // Any client of the server may start a session under any id.
          if (running !== '' && running !== codeHash)
            return { kind: 'unopened', code: 'session/failed', message: `session ${session} runs other code` };
          return await settleSession(client, session);
        }
      }),

    answer: (session, given, signal) => readStanding(session, signal, () => advanceSession(client, session, given)),

    settle: (session, signal) => readStanding(session, signal, () => settleSession(client, session)),

    cancel: (session, signal) =>
      retryWhileAway(signal, async () => {
        try {
          await cancelSession(client, session);
        } catch (error) {
          if (!(error instanceof NoSuchSessionError)) throw error;
        }
      }),
  };
}

async function readStanding(
  session: string,
  signal: AbortSignal,
  work: () => Promise<SessionStanding>,
): Promise<SessionStanding> {
  try {
    return await retryWhileAway(signal, work);
  } catch (error) {
    const ended = endOf(session, error);
    if (ended === null) throw error;
    return ended;
  }
}

/** The end of a session, or null if the error does not mean an end. */
function endOf(session: string, error: unknown): SessionEnded | null {
  if (error instanceof SessionFailedError) return { kind: 'unopened', code: error.code, message: error.message };
  if (error instanceof NoSuchSessionError)
    return { kind: 'unopened', code: 'session/failed', message: `session ${session} is no longer there` };
  return null;
}

/**
 * Retries work while the server is unavailable. At the signal it abandons the running call, because each call may be
 * repeated.
 */
async function retryWhileAway<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  let stop: () => void = () => undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    stop = () => reject(signal.reason as Error);
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    for (;;) {
      try {
        return await Promise.race([work(), aborted]);
      } catch (error) {
        if (signal.aborted || !isUnavailable(error)) throw error;
        await Promise.race([sleep(AGAIN_MS), aborted]);
      }
    }
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
