/** How the activities of sessions are called. Retries here are for infrastructure; the author's are the engine's. */
import { ActivityCancellationType, proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { SessionActivities } from '../../activities/contract-session.ts';
import { HEARTBEAT_TIMEOUT_MS } from '../activity-options.ts';

/** Longer than a callback may run and a child process may take to start: whoever is late is ended by the worker, which then says so. */
const LOCAL_TIMEOUT_MS = 120_000;
/** The values would be dropped by the worker later; a session is not kept from its end by that. */
export const closing = proxyLocalActivities<Pick<SessionActivities, 'closeSession'>>({
  startToCloseTimeout: 10_000,
  retry: { maximumAttempts: 3 },
});

/** An action without `timeoutMs` may last, but not for ever: nobody would learn of it. */
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
