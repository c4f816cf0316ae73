import { expect, test } from 'vitest';
import type { RunOutcome } from '../domain/run/event.ts';
import { runFailure } from './failure.ts';

function failed(failedStage: string | null, message: string): RunOutcome {
  const failure = { code: 'vm/lost', message, stderrTail: 'secret' } as const;
  return { state: 'failed', failedStage, failure, output: null };
}

test.each([
  ['test', 'stage test ended with exit code 3', 'stage test ended with exit code 3'],
  ['test', 'the VM was lost 4 times', 'stage test: the VM was lost 4 times'],
  // Its name is a part of other words.
  ['a', 'the VM was lost at boot', 'stage a: the VM was lost at boot'],
  ['lost', 'the VM was lost 4 times', 'stage lost: the VM was lost 4 times'],
  [null, 'the history is full', 'the history is full'],
])('the failure of a run names the stage %s', (stage, message, expected) => {
  const outcome = failed(stage, message);
  expect(runFailure(outcome)).toMatchObject({ type: 'vm/lost', message: expected, details: [outcome] });
});

test('a run that failed without a reason still fails with a code', () => {
  const outcome: RunOutcome = { state: 'failed', failedStage: null, failure: null, output: null };
  expect(runFailure(outcome)).toMatchObject({ message: 'the run failed', nonRetryable: true, stack: '' });
});
