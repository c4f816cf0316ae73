/** A connection to a server of runs that only records which workflows are started. */
import { type Client, ServiceError, WorkflowNotFoundError } from '@temporalio/client';
import type { RunRequest } from '../../../activities/contract.ts';
import type { ServerLink } from '../../../client/temporal/server-link.ts';

export interface StartedWorkflow {
  readonly workflowId: string;
  readonly args: readonly [RunRequest];
}

export interface RecordedStarts {
  /** Whether the server has a workflow with this id. Throws what a client gets that asks for it. */
  has(workflowId: string): boolean;
  /** Throws what the client of the start gets. */
  start(workflow: StartedWorkflow): void;
}

/** Creates the error of a call whose connection is lost. */
export function createLostCall(): ServiceError {
  const cause = Object.assign(new Error('14 UNAVAILABLE: No connection established'), { code: 14 });
  return new ServiceError('Failed to start Workflow', { cause });
}

export function createStartLink({ has, start }: RecordedStarts): ServerLink {
  const describe = async (workflowId: string) => {
    await Promise.resolve();
    if (!has(workflowId)) throw new WorkflowNotFoundError('none', workflowId, undefined);
    return { status: { name: 'RUNNING' }, startTime: new Date(0) };
  };
  const workflow = {
    getHandle: (workflowId: string) => ({ describe: () => describe(workflowId) }),
    start: async (_type: string, options: StartedWorkflow) => {
      await Promise.resolve();
      start(options);
    },
  };
  const withDeadline = <T>(_untilMs: number, call: () => Promise<T>): Promise<T> => call();
  const client = { workflow, withDeadline } as unknown as Client;
  const link: Partial<ServerLink> = {
    isEmbedded: false,
    client: () => client,
    briefly: (ask) => ask(client),
  };
  return link as ServerLink;
}
