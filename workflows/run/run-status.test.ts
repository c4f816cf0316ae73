import { expect, test } from 'vitest';
import { start, transition } from '../../domain/pipeline/machine.ts';
import type { RunState } from '../../domain/pipeline/state.ts';
import { PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { countUtf8Bytes } from '../../domain/units/utf8.ts';
import { machineOf } from '../../test/machine/plan-of.ts';
import { stagesAsked, type RunSnapshot, statusBeforeAdmission, statusOf } from './run-status.ts';

const REF = { sha256: 'a'.repeat(64), sizeBytes: 3, mediaType: 'text/plain' };

const standing = (plan: RunSnapshot['plan'], state: RunState): RunSnapshot => ({
  origin: null,
  host: 'h',
  plan,
  state,
  outcome: null,
});

test('before the admission, the status is `admitting`, or the reason why the run was not admitted', () => {
  expect(statusBeforeAdmission('r', null)).toMatchObject({ version: 1, runId: 'r', state: 'admitting', stages: [] });
  const failure = { code: 'admit/invalid', message: 'no', stderrTail: '' } as const;
  expect(statusBeforeAdmission('r', failure)).toMatchObject({ state: 'failed', failure });
});

test('states are named as in `voidbox status --json`, also for stages that wait for room or for their next attempt', () => {
  const plan = machineOf('a:2 b c>a', { maxParallel: 1, backoffMs: 5 });
  const first = start(plan).state;
  const statesOf = (state: RunState): unknown =>
    statusOf('r', standing(plan, state), [0, 1, 2]).stages.map((s) => s.state);
  expect(statesOf(first)).toEqual(['running', 'waiting', 'waiting']);
  const failed = transition(plan, first, {
    type: 'stage-finished',
    result: {
      stage: 'a',
      instance: [],
      attempt: 1,
      execKey: 'a/0/1',
      outcome: 'failed',
      failure: { code: 'stage/exit-nonzero', message: 'x', stderrTail: '' },
      durationMs: 1,
      output: null,
      outputs: {},
      vm: null,
      usage: {},
      command: null,
    },
  }).state;
  expect(statesOf(failed)).toEqual(['retrying', 'running', 'waiting']);
});

test('the status has the stages that the query names, in the order of the spec', () => {
  const plan = machineOf('a b c');
  expect(stagesAsked(plan, undefined)).toEqual([0, 1, 2]);
  expect(stagesAsked(plan, { stages: ['c', 'a', 'c'] })).toEqual([0, 2]);
  expect(stagesAsked(plan, { stages: ['a', 'x'] })).toBe('this run has no stage "x"');
  expect(stagesAsked(plan, { stages: 'a' })).toMatch(/takes \{"stages"/);
  expect(stagesAsked(plan, { stages: [{}] })).toMatch(/^this run has no stage/);
});

test('the largest run has an answer that the server accepts, and the answer counts the outputs that it leaves out', () => {
  const name = (index: number): string => `${'n'.repeat(PLAN_LIMITS.nameLength - 5)}-${String(index).padStart(4, '0')}`;
  const ids = Array.from({ length: PLAN_LIMITS.stages }, (_, index) => name(index));
  const plan = machineOf(ids.join(' '));
  const { state } = start(plan);
  // The longest media type that a ref may have.
  const large = { ...REF, mediaType: 'x'.repeat(256) };
  const done = {
    ...state,
    stages: state.stages.map((row) =>
      row.map((stage) => ({
        ...stage,
        phase: 'succeeded' as const,
        attempt: 1,
        result: { output: large, outputs: { [name(0)]: large } },
      })),
    ),
  };
  const all = statusOf('r', standing(plan, done), stagesAsked(plan, undefined) as number[]);
  expect(countUtf8Bytes(JSON.stringify(all))).toBeLessThan(1024 * 1024);
  expect(all.stages).toHaveLength(PLAN_LIMITS.stages);
  const told = all.stages.flatMap(({ output, outputs }) => [
    ...(output === undefined ? [] : [output]),
    ...Object.values(outputs ?? {}),
  ]);
  expect(told.length).toBeGreaterThan(1_000);
  expect(all.leftOut.outputs).toBe(2 * PLAN_LIMITS.stages - told.length);
  const last = statusOf('r', standing(plan, done), stagesAsked(plan, { stages: [ids.at(-1)] }) as number[]);
  expect(last).toMatchObject({ leftOut: { outputs: 0 }, stages: [{ output: large, outputs: { [name(0)]: large } }] });
});
