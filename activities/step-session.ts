/** Activities of sessions: thin, for what they do is done in a skill's own process. */
import { CodedError } from '../domain/errors/coded-error.ts';
import type { SessionActivities } from './contract-session.ts';
import { toActivityFailure } from './failure.ts';
import { withHeartbeat } from './heartbeat.ts';
import type { SessionRecordStore, SkillHost } from './step-ports.ts';

/** Of a session, and with `~` of those that sessions call. Stands in paths. */
const SESSION_ID = /^(?![.~])[A-Za-z0-9._~-]{1,200}$/;

export interface SessionDeps {
  readonly skills: SkillHost;
  readonly records: SessionRecordStore;
  /** Search attributes of ours that the server knows. */
  readonly searchAttributes: readonly string[];
}

export function createSessionActivities({ skills, records, searchAttributes }: SessionDeps): SessionActivities {
  return {
    openSession: (request) =>
      coded(async () => {
        checkId(request.session);
        return { ...(await skills.open(request)), searchAttributes };
      }),
    sessionTurn: (request) => coded(() => skills.turn(request)),
    flushRecords: (request) => coded(() => records.write(request)),
    sessionAction: (request) => withHeartbeat((life) => skills.act(request, life.ended)),
    observe: (request) => withHeartbeat((life) => skills.observe(request, life.ended)),
  };
}

function checkId(session: string): void {
  if (SESSION_ID.test(session)) return;
  throw new CodedError(
    'skill/params',
    `the workflow id ${JSON.stringify(session.slice(0, 160))} is not a session id: 1 to 200 of A-Z, a-z, 0-9, ".", "_", "-", "~", no "." or "~" in front`,
  );
}

async function coded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toActivityFailure(error);
  }
}
