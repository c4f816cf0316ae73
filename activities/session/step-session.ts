/**
 * The activities of sessions. They are thin: a skill's own process does the work, and the guard decides which calls are
 * allowed.
 */
import { parseSessionRequest } from '../../domain/step-machine/session-request.ts';
import { problemOfState } from '../../domain/step-machine/check-state.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { SessionActivities, SkillPlace } from '../contract-session.ts';
import { toActivityFailure } from '../failure.ts';
import { withHeartbeat } from '../heartbeat.ts';
import { SessionGuard, type SessionGuardDeps } from './guard.ts';
import type { SessionRecordStore, SkillHost } from '../ports/sessions.ts';

export interface SessionDeps extends SessionGuardDeps {
  readonly skills: SkillHost;
  readonly records: SessionRecordStore;
  /** Voidbox's search attributes that are registered on the server. */
  readonly searchAttributes: readonly string[];
}

export function createSessionActivities({
  skills,
  records,
  searchAttributes,
  ...guarded
}: SessionDeps): SessionActivities {
  const guard = new SessionGuard(guarded);
  return {
    openSession: (given) =>
      codeErrors(async () => {
        const request = { ...given, request: parseSessionRequest(given.request) };
        const allowed = await guard.mayOpen(request);
        try {
          const opened = { ...(await skills.open(request, allowed)), searchAttributes };
          await guard.isOpen(request, opened, allowed);
          return opened;
        } catch (error) {
          // A session that fails to open has no end that would forget its values.
          if (allowed.root === request.session) await skills.forget(request.session);
          throw error;
        }
      }),
    sessionTurn: (request) =>
      codeErrors(async () => {
        const record = await guard.mayTurn(request);
        checkState(request, request.state);
        const outcome = await skills.turn(request, record);
        // Record the migration before the outcome is returned, because the next turn names the new code.
        if (outcome.kind === 'done' && outcome.migrated !== undefined)
          await guard.hasMigrated(record, outcome.migrated.opened.code);
        return outcome;
      }),
    flushRecords: (request) =>
      codeErrors(async () => {
        await guard.mayFlush(request);
        return await records.write(request);
      }),
    sessionAction: (request) =>
      withHeartbeat(async (life) => {
        const record = await guard.mayAct(request);
        checkState(request, request.state);
        return await skills.act(request, record, life.ended);
      }),
    observe: (request) =>
      withHeartbeat(async (life) => {
        const record = await guard.mayAct(request);
        return await skills.observe(request, record, life.ended);
      }),
    closeSession: (request) =>
      codeErrors(async () => {
        await guard.mayClose(request);
        await skills.forget(request.session);
      }),
  };
}

function checkState({ session }: SkillPlace, state: unknown): void {
  const problem = problemOfState(state, session);
  if (problem !== null)
    throw new CodedError(
      'session/foreign',
      `the state of session "${session}" is not one that it can have: ${problem}`,
    );
}

async function codeErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toActivityFailure(error);
  }
}
