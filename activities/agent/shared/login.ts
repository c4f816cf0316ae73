/**
 * Checks a person's login before the agent starts. No program in a guest renews a login, and a run may have waited for
 * hours since `voidbox run` checked it.
 */
import { CodedError } from '../../../domain/errors/coded-error.ts';
import { isService } from '../../../domain/plan/work.ts';
import { EVENT_ID } from '../../../domain/run/event-id.ts';
import type { ActivityDeps } from '../../deps.ts';
import type { StageRequest } from '../../calls/requests.ts';

export interface AgentLogin {
  readonly owner: 'Claude' | 'Codex';
  readonly endsAtMs: number;
}

/** An agent with less time left would do nothing worth its VM. */
const LEAST_LEFT_MS = 60_000;

const RENEW = { Claude: 'start `claude` once', Codex: 'start `codex` once' } as const;

type Deps = Pick<ActivityDeps, 'events' | 'now'>;

/**
 * Rejects a login that has expired or expires soon. An attempt that has begun continues, because its agent already has
 * the login.
 * @throws CodedError `host/login-expires`
 */
export async function requireValidLogin(deps: Deps, request: StageRequest, login: AgentLogin | null): Promise<void> {
  if (login === null) return;
  const { runId, execKey, stage } = request;
  const leftMs = login.endsAtMs - deps.now();
  if (leftMs >= Math.min(LEAST_LEFT_MS, stage.timeoutMs)) return;
  if ((await deps.events.find(runId, EVENT_ID.attempt(execKey, 'started'))) !== null) return;
  throw new CodedError(
    'host/login-expires',
    `the login of ${login.owner} that stage ${stage.id} was given ${leftMs <= 0 ? 'ended' : 'ends'} at ${isoOf(login)}: ${RENEW[login.owner]} on the machine that started the run to renew the login, then retry the run, which reuses the stages that succeeded (\`voidbox retry\`)`,
  );
}

/** Warns once per attempt if the login may expire while its agent works. */
export async function warnOfLoginEnd(deps: Deps, request: StageRequest, login: AgentLogin | null): Promise<void> {
  if (login === null) return;
  const { runId, execKey, stage } = request;
  const nowMs = deps.now();
  const isServing = isService(stage.work);
  if (!isServing && login.endsAtMs >= nowMs + stage.timeoutMs) return;
  const most = isServing ? 'serves until it is cancelled' : `may take ${stage.timeoutMs / 1000} s`;
  const message = `the login of ${login.owner} ends at ${isoOf(login)}, and stage ${stage.id} ${most}: after that its calls of the model fail`;
  await deps.events.append(runId, [
    {
      id: EVENT_ID.attempt(execKey, 'login-ends'),
      atMs: nowMs,
      body: { type: 'notice', level: 'warning', message },
    },
  ]);
}

function isoOf({ endsAtMs }: AgentLogin): string {
  return new Date(endsAtMs).toISOString();
}
