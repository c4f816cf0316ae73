/** One table of how each activity is called. Retries here are for infrastructure; the author's are the run machine's. */
import { ActivityCancellationType, type ActivityOptions } from '@temporalio/workflow';
import type { Activities } from '../activities/contract.ts';

/** A worker that says nothing for this long is taken for dead and its attempts are given to the next one. */
export const HEARTBEAT_TIMEOUT_MS = 10_000;

/**
 * How long infrastructure may stay away, beyond the time that a stage may take, before the run gives up:
 * a laptop's long weekend.
 */
const INFRASTRUCTURE_PATIENCE_MS = 7 * 24 * 3_600_000;

const RETRY = { initialInterval: 500, backoffCoefficient: 1.5, maximumInterval: 10_000 } as const;

const COMMON = {
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  // An eagerly started task that is lost with its reply waits for a timeout: only where the heartbeat's is short.
  allowEagerDispatch: false,
  retry: RETRY,
} as const satisfies ActivityOptions;

export const ACTIVITY_OPTIONS = {
  admit: { ...COMMON, startToCloseTimeout: 30_000, scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS },
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
  // Other answers wait behind it.
  checkRejection: { ...COMMON, startToCloseTimeout: 30_000, scheduleToCloseTimeout: 600_000 },
  beginItems: { ...COMMON, startToCloseTimeout: 60_000, scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS },
  endItems: { ...COMMON, heartbeatTimeout: HEARTBEAT_TIMEOUT_MS, scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS },
  appendEvents: { ...COMMON, startToCloseTimeout: 30_000, scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS },
  finishRun: { ...COMMON, startToCloseTimeout: 60_000, scheduleToCloseTimeout: INFRASTRUCTURE_PATIENCE_MS },
} as const satisfies Record<keyof Activities, ActivityOptions>;

/** A stage's own time comes on top: the keeper counts it, Temporal only must not be shorter. */
export function stageScheduleToCloseMs(stageTimeoutMs: number): number {
  return stageTimeoutMs + INFRASTRUCTURE_PATIENCE_MS;
}
