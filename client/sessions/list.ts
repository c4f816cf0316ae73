/** Which sessions of step machines there are. */
import type { Client } from '@temporalio/client';
import { isCalledSession } from '../../domain/step-machine/session-id.ts';
import { SEARCH_ATTRIBUTES, SESSION_STARTED_AT_MEMO, SESSION_WORKFLOW_TYPE } from '../../workflows/messages.ts';

export type SessionListState = 'open' | 'done' | 'failed' | 'cancelled';

export interface ListedSession {
  readonly session: string;
  /** Null where the server does not know our search attributes. */
  readonly skill: string | null;
  readonly state: SessionListState;
  readonly startedAtMs: number;
  readonly endedAtMs: number | null;
}

/** Lists sessions, latest first. It omits sessions of sub-skills, because they are part of their callers. */
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

/** Like `listSessions`, one by one. */
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
