/** Finds out whether a run on your own server waits because no worker polls, and which command helps. */
import { readLastPollTime, QUIET_MS } from '../../client/temporal/pollers.ts';
import type { ServerLink } from '../../client/temporal/server-link.ts';
import { RUN_TASK_QUEUE } from '../../workflows/messages.ts';

/** Returns one line. Null: a worker polls, the stack is embedded, or the server does not answer. */
export async function describeMissingWorker(link: ServerLink, nowMs: number): Promise<string | null> {
  if (link.isEmbedded) return null;
  const { namespace } = link.client().options;
  try {
    const last = await readLastPollTime(link.client(), RUN_TASK_QUEUE);
    if (last !== null && nowMs - last < QUIET_MS) return null;
    const queue = `task queue ${RUN_TASK_QUEUE} of namespace ${namespace} on ${link.address()}`;
    const since =
      last === null
        ? `no worker polls ${queue}`
        : `no worker has polled ${queue} for ${Math.round((nowMs - last) / 1000)} s`;
    return `${since}: the run waits for one. Start it with the same TEMPORAL_* variables, on each host that runs VMs: voidbox worker`;
  } catch {
    // A role that may start runs need not be allowed to read a task queue.
    return null;
  }
}
