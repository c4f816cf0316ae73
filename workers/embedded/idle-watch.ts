/** Ends a stack that nobody needs. */
import { Connection } from '@temporalio/client';
import { RUN_WORKFLOW_TYPE, SESSION_WORKFLOW_TYPE } from '../../workflows/messages.ts';
import { textOf, type Log } from '../log.ts';

const IDLE_CHECK_MS = 15_000;

export interface IdleWatch {
  readonly idleLimitMs: number;
  readonly namespace: string;
  readonly address: () => string | null;
  /** When a command last said that it is going to use the stack. */
  readonly lastUsedMs: () => number;
  readonly log: Log;
  readonly stop: (why: string) => Promise<void>;
}

/** Stops the stack when it had no open run and no client for its limit. */
export function watchIdle({ idleLimitMs, namespace, address, lastUsedMs, log, stop }: IdleWatch): NodeJS.Timeout {
  let lastOpenMs = Date.now();
  const look = async (): Promise<void> => {
    const at = address();
    if (at !== null && (await openRuns(at, namespace)) > 0) lastOpenMs = Date.now();
    if (Date.now() - Math.max(lastOpenMs, lastUsedMs()) >= idleLimitMs)
      await stop(`no open run for ${Math.round(idleLimitMs / 1000)} s`);
  };
  return setInterval(
    () => void look().catch((error: unknown) => log('warning', `could not count the open runs: ${textOf(error)}`)),
    Math.min(IDLE_CHECK_MS, idleLimitMs),
  );
}

async function openRuns(address: string, namespace: string): Promise<number> {
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
