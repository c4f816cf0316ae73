/** Ends a stack that nothing needs. */
import { Connection } from '@temporalio/client';
import { setTimeout as sleep } from 'node:timers/promises';
import { readHoldingSchedules, type ScheduleServer } from '../../client/embedded/schedules.ts';
import { RUN_WORKFLOW_TYPE, SESSION_WORKFLOW_TYPE } from '../../workflows/messages.ts';
import { textOf, type Log } from '../log.ts';

const IDLE_CHECK_MS = 15_000;
/** The server lists a new schedule or run a moment after its client has the answer. */
const SECOND_LOOK_MS = 3_000;

export interface IdleWatch {
  readonly idleLimitMs: number;
  readonly namespace: string;
  readonly address: () => string | null;
  /** When a command last said that it is going to use the stack. */
  readonly lastUsedMs: () => number;
  readonly log: Log;
  readonly stop: (why: string) => Promise<void>;
}

/**
 * Stops the stack when it had no open run, no Temporal Schedule with a next action time and no client for its limit. A server
 * that cannot be asked keeps its stack: the stack stops only if the server said twice that nothing needs it.
 */
export function watchIdle({ idleLimitMs, namespace, address, lastUsedMs, log, stop }: IdleWatch): NodeJS.Timeout {
  let lastNeededMs = Date.now();
  let isLooking = false;
  const isNeeded = async (): Promise<boolean> => {
    const at = address();
    return at !== null && (await needsStack({ address: at, namespace }));
  };
  const isOver = (): boolean => Date.now() - Math.max(lastNeededMs, lastUsedMs()) >= idleLimitMs;
  const look = async (): Promise<void> => {
    if (await isNeeded()) lastNeededMs = Date.now();
    if (!isOver()) return;
    await sleep(SECOND_LOOK_MS);
    if (await isNeeded()) lastNeededMs = Date.now();
    if (isOver()) await stop(`no open run and no schedule for ${Math.round(idleLimitMs / 1000)} s`);
  };
  return setInterval(
    () => {
      if (isLooking) return;
      isLooking = true;
      void look()
        .catch((error: unknown) => log('warning', `could not ask the server what needs the stack: ${textOf(error)}`))
        .finally(() => (isLooking = false));
    },
    Math.min(IDLE_CHECK_MS, idleLimitMs),
  );
}

async function needsStack(server: ScheduleServer): Promise<boolean> {
  if ((await openRuns(server)) > 0) return true;
  const { count, isComplete } = await readHoldingSchedules(server);
  return count > 0 || !isComplete;
}

async function openRuns({ address, namespace }: ScheduleServer): Promise<number> {
  const connection = await Connection.connect({ address, connectTimeout: 5_000 });
  try {
    const { count } = await connection.workflowService.countWorkflowExecutions({
      namespace,
      query: `WorkflowType IN ('${RUN_WORKFLOW_TYPE}', '${SESSION_WORKFLOW_TYPE}') AND ExecutionStatus = 'Running'`,
    });
    return Number(count);
  } finally {
    await connection.close();
  }
}
