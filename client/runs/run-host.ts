import { WorkflowNotFoundError, type Client } from '@temporalio/client';
import { SEARCH_ATTRIBUTES } from '../../workflows/messages.ts';

/** The host that a run lives on, by its search attribute; null when the run is unknown, not admitted, or the server lacks the attribute. */
export async function readHostOfRun(client: Client, runId: string): Promise<string | null> {
  try {
    const { searchAttributes } = await client.workflow.getHandle(runId).describe();
    const host = searchAttributes[SEARCH_ATTRIBUTES.host]?.[0];
    return typeof host === 'string' ? host : null;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  }
}
