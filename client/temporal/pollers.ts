/** Lists the workers that polled a task queue recently. */
import { type Client, isGrpcServiceError } from '@temporalio/client';

/** `TASK_QUEUE_TYPE_WORKFLOW` of the server's API. */
const TASK_QUEUE_TYPE_WORKFLOW = 1;
/** `WorkerStatus` of the server's API. */
const WORKER_RUNNING = 1;
const WORKER_SHUTTING_DOWN = 2;
const WORKER_SHUT_DOWN = 3;
const CALL_LIMIT_MS = 5_000;
/** The workers of one task queue that are compared with its polls. */
const MOST_WORKERS = 1_000;

/** A worker polls at least once a minute: after this time it has ended, or the clocks differ. */
export const QUIET_MS = 90_000;

/**
 * Returns when a worker last polled for workflow tasks, by the server's clock; null if none did within its memory of 5
 * minutes. A worker that has reported its end does not count.
 */
export async function readLastPollTime(client: Client, taskQueue: string): Promise<number | null> {
  const { namespace } = client.options;
  const { pollers } = await client.withDeadline(Date.now() + CALL_LIMIT_MS, () =>
    client.workflowService.describeTaskQueue({
      namespace,
      taskQueue: { name: taskQueue },
      taskQueueType: TASK_QUEUE_TYPE_WORKFLOW,
    }),
  );
  if ((pollers ?? []).length === 0) return null;
  const ends = await readWorkerEnds(client, taskQueue);
  const times = (pollers ?? []).flatMap(({ identity, lastAccessTime }) => {
    const polledMs = toMs(lastAccessTime);
    // Another worker may have got the same identity since: its poll is later.
    return polledMs <= (ends.get(identity ?? '') ?? -1) ? [] : [polledMs];
  });
  return times.length === 0 ? null : Math.max(...times);
}

/** Status codes of gRPC: the server knows no workers, or the client may not list them. */
const WITHOUT_WORKERS: readonly number[] = [
  3, // INVALID_ARGUMENT: the server cannot select workers by their task queue.
  7, // PERMISSION_DENIED
  12, // UNIMPLEMENTED
];

/**
 * Returns when workers of a task queue reported their end, by their identity. The server keeps the last poll of a worker
 * for minutes after that.
 */
async function readWorkerEnds(client: Client, taskQueue: string): Promise<ReadonlyMap<string, number>> {
  const ends = new Map<string, number>();
  const running = new Set<string>();
  for (const heartbeat of await listHeartbeats(client, taskQueue)) {
    const { workerIdentity, status, heartbeatTime, taskQueue: polled } = heartbeat;
    if (!workerIdentity || polled !== taskQueue) continue;
    if (status === WORKER_RUNNING) running.add(workerIdentity);
    if (status === WORKER_SHUTTING_DOWN || status === WORKER_SHUT_DOWN)
      ends.set(workerIdentity, Math.max(ends.get(workerIdentity) ?? 0, toMs(heartbeatTime)));
  }
  for (const identity of running) ends.delete(identity);
  return ends;
}

type Listed = Awaited<ReturnType<Client['workflowService']['listWorkers']>>;
type Heartbeat = NonNullable<NonNullable<NonNullable<Listed['workersInfo']>[number]['workerHeartbeat']>>;

async function listHeartbeats(client: Client, taskQueue: string): Promise<readonly Heartbeat[]> {
  // The query language has no escape for them, and any client may name a task queue so.
  if (/['\\]/.test(taskQueue)) return [];
  const { namespace } = client.options;
  const query = `TaskQueue = '${taskQueue}'`;
  try {
    const { workersInfo } = await client.withDeadline(Date.now() + CALL_LIMIT_MS, () =>
      client.workflowService.listWorkers({ namespace, query, pageSize: MOST_WORKERS }),
    );
    return (workersInfo ?? []).flatMap(({ workerHeartbeat }) => (workerHeartbeat ? [workerHeartbeat] : []));
  } catch (error) {
    if (isGrpcServiceError(error) && WITHOUT_WORKERS.includes(error.code)) return [];
    throw error;
  }
}

function toMs(time: { readonly seconds?: unknown; readonly nanos?: number | null } | null | undefined): number {
  return Number(time?.seconds ?? 0) * 1_000 + Math.floor((time?.nanos ?? 0) / 1_000_000);
}
