/** Lists which code the sessions of a server use, so that a clean-up deletes only unused code. */
import type { Client } from '@temporalio/client';
import type { SessionView } from '../../activities/contract-session.ts';
import { SESSION_MESSAGES, SESSION_WORKFLOW_TYPE } from '../../workflows/messages.ts';
import type { SessionUses } from '../../activities/ports/session-stores.ts';

/** A session whose worker is away does not answer. */
const QUERY_LIMIT_MS = 5_000;

/** One query for each open session: each is read by a worker. */
export async function listSessionUses(client: Client, serverId: string): Promise<SessionUses> {
  const open = new Set<string>();
  for await (const { workflowId } of client.workflow.list({
    query: `WorkflowType = '${SESSION_WORKFLOW_TYPE}' AND ExecutionStatus = 'Running'`,
  })) {
    open.add(workflowId);
  }
  return { serverId, open, codeHashes: await codeOf(client, [...open]) };
}

async function codeOf(client: Client, sessions: readonly string[]): Promise<ReadonlySet<string> | null> {
  const codeHashes = new Set<string>();
  for (const session of sessions) {
    try {
      const view = await client.withDeadline(
        Date.now() + QUERY_LIMIT_MS,
        async () => (await client.workflow.getHandle(session).query(SESSION_MESSAGES.view)) as SessionView,
      );
      // While it is being opened it names none, and may be about to run any.
      if (view.codeHash === '') return null;
      codeHashes.add(view.codeHash);
    } catch {
      // The code of one session is unknown, so no code is known to be unused.
      return null;
    }
  }
  return codeHashes;
}
