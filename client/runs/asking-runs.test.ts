import { type Client, ServiceError, WorkflowNotFoundError } from '@temporalio/client';
import { expect, test } from 'vitest';
import { type AskingRuns, listAskingRuns } from './asking-runs.ts';

const DEADLINE_EXCEEDED = 4;

interface Listed {
  readonly asked: readonly string[];
  readonly query: string;
  readonly found: AskingRuns;
}

/** Lists the runs of a server on which each run answers with these stages, is silent, or has ended since. */
async function listOn(
  answers: Readonly<Record<string, readonly string[] | 'silent' | 'ended' | Error>>,
  sinceMs?: number,
): Promise<Listed> {
  const asked: string[] = [];
  let query = '';
  const ask = async (runId: string): Promise<unknown> => {
    asked.push(runId);
    const answer = answers[runId]!;
    if (answer === 'ended') throw new WorkflowNotFoundError('it has ended', runId, undefined);
    if (answer === 'silent')
      throw new ServiceError('Query failed', {
        cause: Object.assign(new Error('late'), { code: DEADLINE_EXCEEDED, details: '', metadata: {} }),
      });
    if (answer instanceof Error) throw answer;
    const stages = [...answer.map((id) => ({ id, state: 'asking' })), { id: 'other', state: 'running' }];
    return { state: 'running', name: 'release', host: 'there', stages };
  };
  const client = {
    options: { namespace: 'default' },
    withDeadline: (_deadline: number, call: () => unknown) => call(),
    workflowService: {
      listWorkflowExecutions: async (request: { query: string }) => {
        query = request.query;
        return { executions: Object.keys(answers).map((workflowId) => ({ execution: { workflowId } })) };
      },
    },
    workflow: {
      getHandle: (runId: string) => ({
        query: () => ask(runId),
        describe: async () => ({ raw: { pendingChildren: [] } }),
      }),
    },
  } as unknown as Client;
  const isKnown = async (runId: string): Promise<boolean> => runId === 'here';
  const found = await listAskingRuns(client, { isKnown, sinceMs });
  return { asked, query, found };
}

test('runs of other hosts that wait are listed with their stages; a run of this host is not asked', async () => {
  const { asked, found } = await listOn({ here: ['a'], waits: ['a', 'b'], works: [], closed: 'ended', away: 'silent' });
  expect(asked).toEqual(['waits', 'works', 'closed', 'away']);
  expect(found).toEqual({
    runs: [{ runId: 'waits', name: 'release', host: 'there', stages: ['a', 'b'] }],
    silent: ['away'],
    hasMore: false,
  });
});

test('an error of the server is not taken for a run that waits for nothing', async () => {
  await expect(listOn({ waits: new Error('denied') })).rejects.toThrow('denied');
});

test('the server selects runs by their start', async () => {
  const { query } = await listOn({}, 0);
  expect(query).toBe(
    "WorkflowType = 'voidboxRun' AND ExecutionStatus = 'Running' AND StartTime >= '1970-01-01T00:00:00.000Z'",
  );
  expect((await listOn({})).query).not.toContain('StartTime');
});
