import { expect, test } from 'vitest';
import type { AgentOutcome } from '../../agents/stream.ts';
import { NO_USE } from '../../domain/agent/budget.ts';
import type { StageFailure, StageResult } from '../../domain/run/stage-result.ts';
import { plainStage } from '../../test/rig/runs/mock-worker.ts';
import { type AgentTurn, describeTurnFailure } from './turns.ts';
import type { ExecExit } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';

const REQUEST = { stage: plainStage('think', 'think', ['claude']) } as unknown as StageRequest;
const EXIT: ExecExit = {
  reason: 'exited',
  exitCode: 137,
  signal: 9,
  cause: null,
  message: '',
  startedAtMs: 0,
  endedAtMs: 1,
  stdoutBytes: 100,
  stderrBytes: 0,
  droppedBytes: 0,
};
const OUTCOME: AgentOutcome = {
  hasEnded: false,
  text: null,
  failure: null,
  sessionId: 's',
  model: 'm',
  usage: NO_USE,
  isUsageFinal: false,
};
const OUT_OF_MEMORY: StageFailure = {
  code: 'stage/out-of-memory',
  message: 'stage think was ended by signal 9 (exit code 137): the VM ran out of memory; `memory_mb` is 192, raise it',
  stderrTail: 'reading\n',
};
const KILLED: StageFailure = {
  code: 'stage/exit-nonzero',
  message: 'stage think was ended by signal 9 (exit code 137)',
  stderrTail: 'reading\n',
};

interface Ended {
  readonly exit?: Partial<ExecExit>;
  readonly outcome?: Partial<AgentOutcome>;
  readonly over?: AgentTurn['over'];
}

function failureOf({ exit, outcome, over }: Ended, ofCommand: Pick<StageResult, 'outcome' | 'failure'>) {
  const turn = { exit: { ...EXIT, ...exit }, outcome: { ...OUTCOME, ...outcome }, over: over ?? null };
  return describeTurnFailure(REQUEST, turn as unknown as AgentTurn, ofCommand as StageResult);
}

const lacking = { outcome: 'failed', failure: OUT_OF_MEMORY } as const;
const killed = { outcome: 'failed', failure: KILLED } as const;

test('an agent that the guest killed for memory has that failure, whatever it printed before', () => {
  expect(failureOf({}, lacking)).toEqual(OUT_OF_MEMORY);
  expect(failureOf({ exit: { stdoutBytes: 0 } }, lacking)).toEqual(OUT_OF_MEMORY);
  // The rest of the agent ended with an error of its own.
  expect(failureOf({ exit: { exitCode: 2 } }, lacking)).toEqual(OUT_OF_MEMORY);
});

test('an agent that was killed for another reason was cut off, or said nothing', () => {
  const stderrTail = 'reading\n';
  expect(failureOf({}, killed)).toEqual({
    code: 'agent/truncated',
    message:
      'the agent of stage think was cut off before the end of its stream: its command line ended with exit code 137',
    stderrTail,
  });
  expect(failureOf({ exit: { stdoutBytes: 0 } }, killed)).toEqual({
    code: 'agent/failed',
    message: 'the agent of stage think said nothing: its command line ended with exit code 137',
    stderrTail,
  });
});

test('an agent that ended its turn has its own failure, even if memory was short; a budget and a cancel take precedence', () => {
  const failure = { code: 'agent/api-error', message: 'the rate limit is reached' } as const;
  expect(failureOf({ outcome: { hasEnded: true, failure } }, lacking)?.code).toBe('agent/api-error');
  expect(failureOf({ outcome: { hasEnded: true } }, lacking)?.code).toBe('agent/failed');
  const over = { code: 'agent/budget-turns', words: 'made 3 calls of the model; 2 were left to it' } as const;
  expect(failureOf({ over }, lacking)?.code).toBe('agent/budget-turns');
  expect(failureOf({}, { outcome: 'cancelled', failure: OUT_OF_MEMORY })).toBeNull();
  expect(
    failureOf({ exit: { exitCode: 0 }, outcome: { hasEnded: true } }, { outcome: 'succeeded', failure: null }),
  ).toBeNull();
});
