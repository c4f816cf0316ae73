/** Lists the workers that polled a task queue recently. */
import type { Client } from '@temporalio/client';

/** `TASK_QUEUE_TYPE_WORKFLOW` of the server's API. */
const TASK_QUEUE_TYPE_WORKFLOW = 1;
const CALL_LIMIT_MS = 5_000;

/** A worker polls at least once a minute: after this time it has ended, or the clocks differ. */
export const QUIET_MS = 90_000;

/**
 * Returns when a worker last polled for workflow tasks, by the server's clock; null if none did within its memory of 5
 * minutes.
 */
export async function readLastPollTime(client: Client, taskQueue: string): Promise<number | null> {
  const { pollers } = await client.withDeadline(Date.now() + CALL_LIMIT_MS, () =>
    client.workflowService.describeTaskQueue({
      namespace: client.options.namespace,
      taskQueue: { name: taskQueue },
      taskQueueType: TASK_QUEUE_TYPE_WORKFLOW,
    }),
  );
  const times = (pollers ?? []).map(({ lastAccessTime }) => Number(lastAccessTime?.seconds ?? 0) * 1_000);
  return times.length === 0 ? null : Math.max(...times);
}
