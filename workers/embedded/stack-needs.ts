/** Asks the server of a stack whether the stack is still in use. */
import { Connection } from '@temporalio/client';
import { readHoldingSchedules, type ScheduleServer } from '../../client/embedded/schedules.ts';
import { RUN_WORKFLOW_TYPE, SESSION_WORKFLOW_TYPE } from '../../workflows/messages.ts';

/**
 * Whether the server has an open run or session, or a Temporal Schedule with a next action time.
 * @throws errors of the SDK
 */
export async function needsStack(server: ScheduleServer): Promise<boolean> {
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
