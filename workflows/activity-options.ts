/** The options of each activity. Retries here are for infrastructure; the run machine handles the author's retries. */
import { ActivityCancellationType, type ActivityOptions } from '@temporalio/workflow';
import type { Activities } from '../activities/contract.ts';
import type { ScheduleActivities } from '../activities/contract-schedule.ts';

/** The server takes a worker without a heartbeat for this long for dead, and gives its attempts to the next worker. */
export const HEARTBEAT_TIMEOUT_MS = 10_000;

/**
 * How long infrastructure may be away, in addition to the time of the stage, before the run gives up: a laptop's long
 * weekend.
 */
const INFRASTRUCTURE_PATIENCE_MS = 7 * 24 * 3_600_000;

const RETRY = { initialInterval: 500, backoffCoefficient: 1.5, maximumInterval: 10_000 } as const;

const COMMON = {
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  // If an eagerly started task is lost with its reply, it waits for a timeout. So only `admit` and `runStage` allow it,
  // whose heartbeat timeout is short: they are what a run waits for first and most often.
  allowEagerDispatch: false,
  retry: RETRY,
} as const satisfies ActivityOptions;

export const ACTIVITY_OPTIONS = {
  admit: {
    ...COMMON,
    allowEagerDispatch: true,
    startToCloseTimeout: 30_000,
    heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
    scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS,
  },
  acquireVm: { ...COMMON, heartbeatTimeout: HEARTBEAT_TIMEOUT_MS, scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS },
  runStage: {
    ...COMMON,
    allowEagerDispatch: true,
    heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
    scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS,
  },
  releaseVm: { ...COMMON, startToCloseTimeout: 30_000, scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS },
  evaluateCondition: { ...COMMON, startToCloseTimeout: 60_000, scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS },
  findTime: { ...COMMON, startToCloseTimeout: 60_000, scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS },
  askApproval: { ...COMMON, startToCloseTimeout: 30_000, scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS },
  recordApproval: { ...COMMON, startToCloseTimeout: 30_000, scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS },
  // Other answers wait for it, so its limit is short.
  checkRejection: { ...COMMON, startToCloseTimeout: 30_000, scheduleToCloseTimeout: 600_000 },
  beginItems: { ...COMMON, startToCloseTimeout: 60_000, scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS },
  endItems: { ...COMMON, heartbeatTimeout: HEARTBEAT_TIMEOUT_MS, scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS },
  appendEvents: { ...COMMON, startToCloseTimeout: 30_000, scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS },
  finishRun: {
    ...COMMON,
    startToCloseTimeout: 60_000,
    heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
    scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS,
  },
} as const satisfies Record<keyof Activities, ActivityOptions>;

/** The service may be away for long: what is too late then, the delivery's decision says. */
export const SCHEDULE_ACTIVITY_OPTIONS = {
  ...COMMON,
  startToCloseTimeout: 120_000,
  scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS,
} as const satisfies ActivityOptions & Partial<Record<keyof ScheduleActivities, never>>;

/** Adds the stage's own time limit. The keeper enforces that limit; Temporal's limit must only be longer. */
export function stageScheduleToCloseMs(stageTimeoutMs: number): number {
  return stageTimeoutMs + INFRASTRUCTURE_PATIENCE_MS;
}
