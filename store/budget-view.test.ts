import { expect, test } from 'vitest';
import type { RunEventBody } from '../domain/run/event.ts';
import { stageResult } from '../test/rig/runs/stage-results.ts';
import { usedOf } from './budget-view.ts';
import { emptyView, type RunView } from './run-view.ts';
import { project } from './projection.ts';

const ADMITTED: RunEventBody = {
  type: 'run-admitted',
  name: 'x',
  kind: 'workflow',
  hostId: 'h',
  stages: [{ id: 'a', dependsOn: [] }],
  outputStage: 'a',
  budget: { maxTokens: 1_000 },
};

function used(stage: string, execKey: string, tokens: number, turns: number, costUsd: number | null): RunEventBody {
  const inputTokens = tokens - 10;
  return { type: 'agent-usage', stage, execKey, inputTokens, outputTokens: 10, cachedInputTokens: 0, turns, costUsd };
}

function started(stage: string, execKey: string, attempt: number): RunEventBody {
  return { type: 'stage-started', stage, execKey, attempt, budget: { maxTokens: 500 } };
}

function finished(stage: string, execKey: string): RunEventBody {
  const failure = { code: 'stage/exit-nonzero', message: 'no', stderrTail: '' } as const;
  const result = stageResult(execKey, { failure });
  return { type: 'stage-finished', stage, execKey, result };
}

function viewOf(...bodies: readonly RunEventBody[]): RunView {
  return bodies
    .map((body, index) => ({ seq: index + 1, id: `e${index}`, atMs: 1_000, body }))
    .reduce(project, emptyView('r'));
}

test('all attempts of all agents count against the budget of the run, each with the most that it reported', () => {
  const view = viewOf(
    ADMITTED,
    started('a', 'a/0/1', 1),
    used('a', 'a/0/1', 100, 1, null),
    used('a', 'a/0/1', 200, 2, 0.5),
    finished('a', 'a/0/1'),
    started('a', 'a/0/2', 2),
    used('a', 'a/0/2', 40, 1, null),
    // An item, whose stage has no row.
    used('work', 'each[3]/work/0/1', 60, 1, 0.25),
  );
  expect(usedOf(view.budget!)).toEqual({
    inputTokens: 270,
    outputTokens: 30,
    cachedInputTokens: 0,
    turns: 4,
    costUsd: 0.75,
  });
  expect(Object.keys(view.budget!.open)).toHaveLength(2);
  expect(view.stages[0]).toMatchObject({ budget: { maxTokens: 500 }, usage: { inputTokens: 30 } });
});

test('a run without a budget has no account of a budget', () => {
  const { budget: _, ...admitted } = ADMITTED as Extract<RunEventBody, { type: 'run-admitted' }>;
  expect(viewOf(admitted, used('a', 'a/0/1', 100, 1, null)).budget).toBeUndefined();
});
