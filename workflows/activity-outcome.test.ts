import { ActivityFailure, ApplicationFailure, CancelledFailure, RetryState, TimeoutFailure } from '@temporalio/common';
import { expect, test } from 'vitest';
import type { StageResult } from '../domain/run/stage-result.ts';
import { stageFailureEvent, stageResultEvent } from './activity-outcome.ts';

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

const RESULT: StageResult = {
  stage: 'a',
  instance: [],
  attempt: 1,
  execKey: 'a/0/1',
  outcome: 'failed',
  failure: { code: 'stage/exit-nonzero', message: 'stage a ended with exit code 3', stderrTail: 'no rule\n' },
  durationMs: 1,
  output: null,
  outputs: {},
  vm: null,
  usage: {},
  command: { exitCode: 3, stdoutBytes: 0, stderrBytes: 8 },
};

const carrying = (detail: unknown): ActivityFailure =>
  failureOf(
    ApplicationFailure.create({
      type: 'stage/exit-nonzero',
      message: 'what stands in the message',
      nonRetryable: true,
      details: [detail],
    }),
  );

test.each([false, true])(
  'a failure that carries its result becomes that result (cancel pending: %s)',
  (isCancelled) => {
    expect(stageFailureEvent(carrying(RESULT), 'a', 'a/0/1', isCancelled)).toEqual({
      type: 'stage-finished',
      result: RESULT,
    });
  },
);

test.each<[string, unknown]>([
  ['nothing', undefined],
  ['a payload that cannot be read', { unreadable: 'no key' }],
  ['a result of another stage', { ...RESULT, stage: 'b' }],
  ['a result of another attempt', { ...RESULT, execKey: 'a/0/2' }],
  ['a success', { ...RESULT, outcome: 'succeeded', failure: null }],
  ['an invalid failure', { ...RESULT, failure: 'no rule' }],
  ['invalid outputs', { ...RESULT, outputs: { a: 1 } }],
])('a failure that carries %s becomes its own type and message', (_what, detail) => {
  expect(stageFailureEvent(carrying(detail), 'a', 'a/0/1', false)).toEqual({
    type: 'stage-broken',
    stageId: 'a',
    execKey: 'a/0/1',
    code: 'stage/exit-nonzero',
    message: 'what stands in the message',
  });
});

test('a value is used unchanged if it is a result of the attempt', () => {
  for (const outcome of ['succeeded', 'failed', 'cancelled', 'passed'] as const)
    expect(stageResultEvent({ ...RESULT, outcome }, 'a', 'a/0/1')).toMatchObject({
      type: 'stage-finished',
      result: { outcome },
    });
});

test.each([
  null,
  undefined,
  5,
  [],
  {},
  { ...RESULT, stage: 'b' },
  { ...RESULT, outcome: 'well' },
  { ...RESULT, vm: undefined },
  { ...RESULT, usage: { turns: 'many' } },
  { ...RESULT, command: {} },
])('another value breaks the stage, not the workflow: %j', (value) => {
  expect(stageResultEvent(value, 'a', 'a/0/1')).toMatchObject({ type: 'stage-broken', code: 'internal/bug' });
});
