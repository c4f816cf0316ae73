import { ActivityFailure, ApplicationFailure, CancelledFailure, RetryState, TimeoutFailure } from '@temporalio/common';
import { expect, test } from 'vitest';
import { stageFailureEvent } from './activity-outcome.ts';

function failureOf(cause: Error): ActivityFailure {
  return new ActivityFailure('activity failed', 'runStage', '1', RetryState.CANCEL_REQUESTED, 'worker', cause);
}

const HOST = ApplicationFailure.create({ type: 'store/io', message: 'no room', nonRetryable: false });
const FINAL = ApplicationFailure.create({ type: 'stage/bad-output', message: 'a link', nonRetryable: true });
const LOST = ApplicationFailure.create({ type: 'vm/lost', message: 'gone', nonRetryable: true });

test.each<[string, Error, boolean, string]>([
  ['a failure that is tried again, when it was tried often enough', HOST, false, 'stage-broken'],
  ['the same with a cancel pending, which nothing is tried again with', HOST, true, 'stage-cancelled'],
  ['a final failure', FINAL, false, 'stage-broken'],
  ['a final failure with a cancel pending', FINAL, true, 'stage-broken'],
  ['a lost VM', LOST, false, 'stage-lost'],
  ['a lost VM with a cancel pending, which the machine knows', LOST, true, 'stage-lost'],
  ['a worker that died', new TimeoutFailure('t', undefined, 'HEARTBEAT'), false, 'stage-broken'],
  [
    'a worker that died with a cancel pending',
    new TimeoutFailure('t', undefined, 'HEARTBEAT'),
    true,
    'stage-cancelled',
  ],
  ['a command that was cancelled', new CancelledFailure('c'), true, 'stage-cancelled'],
])('%s', (_what, cause, cancelRequested, type) => {
  expect(stageFailureEvent(failureOf(cause), 'a', 'a/0/1', cancelRequested)).toMatchObject({ type, stageId: 'a' });
});
