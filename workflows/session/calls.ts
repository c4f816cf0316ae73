/**
 * How the activities of sessions are called. Retries here are for infrastructure; the engine handles the author's
 * retries.
 */
import { ActivityCancellationType, proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { SessionActivities } from '../../activities/contract-session.ts';
import { HEARTBEAT_TIMEOUT_MS } from '../activity-options.ts';

/**
 * Longer than a callback may run and a child process may take to start. The worker ends a late one and reports that.
 */
const LOCAL_TIMEOUT_MS = 120_000;
/** The worker would drop the values later anyway, so this call does not delay the end of a session for long. */
export const closing = proxyLocalActivities<Pick<SessionActivities, 'closeSession'>>({
  startToCloseTimeout: 10_000,
  retry: { maximumAttempts: 3 },
});

/** An action without `timeoutMs` may last long, but not for ever: no client would learn of it. */
export const ACTION_LIMIT_MS = 30 * 24 * 3_600_000;

export const localActivities = proxyLocalActivities<
  Pick<SessionActivities, 'openSession' | 'sessionTurn' | 'flushRecords'>
>({
  startToCloseTimeout: LOCAL_TIMEOUT_MS,
  retry: { initialInterval: 200, backoffCoefficient: 2, maximumInterval: 10_000 },
});

const RETRY = { initialInterval: 500, backoffCoefficient: 1.5, maximumInterval: 10_000 } as const;

export const activities = proxyActivities<Pick<SessionActivities, 'sessionAction' | 'observe'>>({
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  allowEagerDispatch: false,
  heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
  scheduleToCloseTimeout: ACTION_LIMIT_MS,
  retry: RETRY,
});
