/** Reads the state of one workflow run from the server. */
import { type Client, isGrpcServiceError, WorkflowNotFoundError } from '@temporalio/client';
import type { ParentExecution } from '../../activities/deps.ts';
import type { WorkflowRun } from '../../activities/ports/sessions.ts';

/** Status codes of gRPC. */
const INVALID_ARGUMENT = 3;
const NOT_FOUND = 5;

/** Whether a workflow of that id has not ended. */
export async function isRunning(client: Client, workflowId: string): Promise<boolean> {
  try {
    return (await client.workflow.getHandle(workflowId).describe()).status.name === 'RUNNING';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

/** The execution that started this one as its child; null: none did, or the server has no such run. */
export async function parentOf(
  { workflowService, options: { namespace } }: Client,
  workflowId: string,
  runId: string,
): Promise<ParentExecution | null> {
  try {
    const { workflowExecutionInfo: info } = await workflowService.describeWorkflowExecution({
      namespace,
      execution: { workflowId, runId },
    });
    const { workflowId: id, runId: executionId } = info?.parentExecution ?? {};
    return id && executionId ? { workflowId: id, executionId } : null;
  } catch (error) {
    if (isGrpcServiceError(error) && (error.code === NOT_FOUND || error.code === INVALID_ARGUMENT)) return null;
    throw error;
  }
}

/** Null when the server has no such run. */
export async function workflowRun(
  { workflowService, options: { namespace } }: Client,
  workflowId: string,
  runId: string,
): Promise<WorkflowRun | null> {
  try {
    const { workflowExecutionInfo: info } = await workflowService.describeWorkflowExecution({
      namespace,
      execution: { workflowId, runId },
    });
    if (!info) return null;
    return { taskQueue: info.taskQueue ?? '', firstRun: info.firstRunId || null };
  } catch (error) {
    if (isGrpcServiceError(error) && (error.code === NOT_FOUND || error.code === INVALID_ARGUMENT)) return null;
    throw error;
  }
}
