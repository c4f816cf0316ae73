/** Whether the activity that drives a run of one command is still called for. */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';

/** A call of `runCommand`. */
export interface CommandCall {
  readonly workflowId: string;
  /** The run id of the workflow's execution. */
  readonly runId: string;
  readonly activityId: string;
}

/**
 * `pending`: the server waits for the call, whether a worker has it or not. `absent`: its workflow is running without
 * it, because the call is not scheduled yet or has ended. `over`: its workflow has ended, or the server does not know
 * it.
 */
export type CommandCallState = 'pending' | 'absent' | 'over';

export async function stateOfCommandCall(
  client: Client,
  { workflowId, runId, activityId }: CommandCall,
): Promise<CommandCallState> {
  try {
    const { status, raw } = await client.workflow.getHandle(workflowId, runId).describe();
    if (status.name !== 'RUNNING' && status.name !== 'PAUSED') return 'over';
    return raw.pendingActivities?.some((pending) => pending.activityId === activityId) === true ? 'pending' : 'absent';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return 'over';
    throw error;
  }
}
