/**
 * Tests which error a client gets if the workflow ends before it receives the client's update. Servers report this in
 * several ways.
 */
import { type Client, WorkflowFailedError, WorkflowNotFoundError, WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { expect, test } from 'vitest';
import { SessionFailedError } from './errors.ts';
import { startSession } from './sessions.ts';

const ABORTED = 'workflow update was aborted by closing workflow';
const closing = (type: string): Error =>
  new WorkflowUpdateFailedError('Workflow Update failed', ApplicationFailure.nonRetryable(ABORTED, type));

/**
 * A server that answers the update with this error. The workflow has failed for a reason of its own, or is still
 * running.
 */
function clientWith(answer: Error, status: 'FAILED' | 'RUNNING'): Client {
  const reason = ApplicationFailure.nonRetryable('there is no skill "nothing"', 'skill/unknown');
  const handle = {
    describe: () => Promise.resolve({ status: { name: status } }),
    result: () => Promise.reject(new WorkflowFailedError('Workflow execution failed', reason, 'NON_RETRYABLE_FAILURE')),
  };
  return {
    workflow: { executeUpdateWithStart: () => Promise.reject(answer), getHandle: () => handle },
  } as unknown as Client;
}

test.each<[string, Error]>([
  ['not found', new WorkflowNotFoundError(ABORTED, 's', undefined)],
  ['accepted, never completed', closing('AcceptedUpdateCompletedWorkflow')],
  ['closing', closing('WorkflowClosing')],
])('the reason of the session, not the server’s word: %s', async (_what, answer) => {
  const started = startSession(clientWith(answer, 'FAILED'), 's', { skill: 'nothing' });
  await expect(started).rejects.toThrow(new SessionFailedError('skill/unknown', 'there is no skill "nothing"'));
  await expect(started).rejects.toMatchObject({ code: 'skill/unknown' });
});

test('the error of the server is kept if the session is still running', async () => {
  const answer = new WorkflowNotFoundError(ABORTED, 's', undefined);
  await expect(startSession(clientWith(answer, 'RUNNING'), 's', { skill: 'nothing' })).rejects.toBe(answer);
});
