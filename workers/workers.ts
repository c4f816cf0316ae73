/**
 * The Workers of a host in one process. They poll the shared queue for workflows, and the host's own queue for its
 * activities. They also poll the shared queue for runs that admission sent there, and sessions if skills are loaded.
 */
import { NativeConnection, Runtime, Worker, DefaultLogger, type WorkerOptions } from '@temporalio/worker';
import type { Activities } from '../activities/contract.ts';
import { LOCAL_ACTIVITIES } from '../activities/calls/local-activities.ts';
import type { ScheduleActivities } from '../activities/contract-schedule.ts';
import type { SessionActivities } from '../activities/contract-session.ts';
import { RUN_TASK_QUEUE, SESSION_TASK_QUEUE, hostTaskQueue } from '../workflows/messages.ts';
import type { WorkflowBundle } from './bundle.ts';
import type { Log } from './log.ts';
import { buildConnectionOptions, isLoopback, type TemporalAddress } from '../client/temporal/temporal-address.ts';

/** A fixed upper bound; what really runs is decided by memory. */
const HOST_ACTIVITY_SLOTS = 200;
/** Actions wait for a process of their own anyway. */
const SESSION_ACTIVITY_SLOTS = 50;

/** The options of a Worker whose activities hold VMs. */
export const HOST_WORKER_OPTIONS = {
  // Attempts detach at once and the next worker takes them over, so there is nothing to wait for.
  shutdownGraceTime: 0,
  shutdownForceTime: 15_000,
  // A cancel reaches an activity with the answer to a heartbeat, and its process must end within 3 s.
  maxHeartbeatThrottleInterval: 1_000,
  defaultHeartbeatThrottleInterval: 1_000,
  maxConcurrentActivityTaskExecutions: HOST_ACTIVITY_SLOTS,
} as const satisfies Partial<WorkerOptions>;

export interface WorkersOptions {
  readonly target: TemporalAddress;
  readonly hostId: string;
  readonly activities: Activities;
  /** For the queue that hosts share; see `guardByHost`. */
  readonly sharedActivities: Activities;
  readonly schedules: ScheduleActivities;
  /** Null: this host has no skills. */
  readonly sessions: SessionActivities | null;
  readonly bundle: WorkflowBundle;
}

export interface RunningWorkers {
  /** Settles when both have ended; rejects when one failed. */
  readonly ended: Promise<void>;
  shutdown(): void;
  close(): Promise<void>;
}

/** Routes the SDK's log into ours. Once per process, before anything else of the SDK. */
export function installRuntime(log: Log): void {
  Runtime.install({
    logger: new DefaultLogger('WARN', (entry) => {
      // The host's Worker has no workflows, on purpose.
      if (entry.message.startsWith('No workflows registered')) return;
      log(
        entry.level === 'ERROR' ? 'error' : 'warning',
        `${entry.message} ${JSON.stringify(entry.meta ?? {}, readable)}`,
      );
    }),
    telemetryOptions: { logging: { filter: { core: 'WARN', other: 'ERROR' }, forward: {} } },
    shutdownSignals: [],
  });
}

function readable(key: string, value: unknown): unknown {
  if (value instanceof Error) return value.message;
  if (key === 'taskToken') return undefined;
  return typeof value === 'bigint' ? String(value) : value;
}

export async function startWorkers({
  target,
  hostId,
  activities,
  sharedActivities,
  schedules,
  sessions,
  bundle,
}: WorkersOptions): Promise<RunningWorkers> {
  const connection = await NativeConnection.connect({
    ...buildConnectionOptions(target),
    ...(isLoopback(target.address) ? { grpcCompression: { codec: 'none' as const } } : {}),
  });
  const common = { ...HOST_WORKER_OPTIONS, connection, namespace: target.namespace } satisfies Partial<WorkerOptions>;
  const workers = [
    await Worker.create({
      ...common,
      taskQueue: RUN_TASK_QUEUE,
      workflowBundle: bundle,
      activities: { ...sharedActivities, ...schedules, ...LOCAL_ACTIVITIES },
      stickyQueueScheduleToStartTimeout: 1_000,
      maxCachedWorkflows: 200,
    }),
    await Worker.create({
      ...common,
      taskQueue: hostTaskQueue(hostId),
      activities: { ...activities },
    }),
  ];
  if (sessions !== null) {
    workers.push(
      await Worker.create({
        ...common,
        taskQueue: SESSION_TASK_QUEUE,
        workflowBundle: bundle,
        activities: { ...sessions },
        stickyQueueScheduleToStartTimeout: 1_000,
        maxCachedWorkflows: 200,
        maxConcurrentActivityTaskExecutions: SESSION_ACTIVITY_SLOTS,
      }),
    );
  }
  const shutdown = (): void => {
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
  };
  const ended = Promise.all(workers.map((worker) => worker.run().finally(shutdown))).then(() => undefined);
  return { ended, shutdown, close: () => connection.close() };
}
