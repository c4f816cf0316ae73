import { expect, test } from 'vitest';
import { planOf } from '../../test/machine/plan-of.ts';
import { findChangedLimits, findCostProblem, isLimit, joinLimits, withLimits } from './agent-limits.ts';
import type { AgentWork, LlmPlan, Plan, StagePlan } from '../plan/plan.ts';

const LLM: LlmPlan = { provider: 'codex', model: null, baseUrl: null, apiKeyEnv: null, credentialProxy: false };

function withAgent(plan: Plan, id: string, change: Partial<AgentWork> = {}): Plan {
  const work: AgentWork = {
    kind: 'agent',
    mode: 'task',
    prompt: 'p',
    llm: LLM,
    messaging: false,
    skills: [],
    env: [],
    ...change,
  };
  return {
    ...plan,
    stages: plan.stages.map((stage) => (stage.id === id ? { ...stage, work, timeoutMs: 60_000 } : stage)),
  };
}

const stageOf = (plan: Plan, id: string): StagePlan => plan.stages.find((stage) => stage.id === id)!;

test('a limit replaces that of the named stages only, and the other limits stay', () => {
  const plan = withAgent(withAgent(planOf('a b'), 'a', { budget: { maxTurns: 3, maxTokens: 9 } }), 'b');
  const next = withLimits(plan, findChangedLimits(plan, new Set(['a']), { timeoutMs: 300_000, maxTurns: 40 }));
  expect(stageOf(next, 'a')).toMatchObject({ timeoutMs: 300_000, work: { budget: { maxTurns: 40, maxTokens: 9 } } });
  expect(stageOf(next, 'b')).toEqual(stageOf(plan, 'b'));
  expect(findChangedLimits(plan, new Set(['a']), {})).toEqual({ stages: {} });
  expect(withLimits(plan, { stages: {} })).toEqual(plan);
});

test('limits of the run are raised with the limits of the agent, and never lowered', () => {
  const plan = { ...withAgent(planOf('a'), 'a'), timeoutMs: 90_000, budget: { maxTurns: 5, maxTokens: 100 } };
  const raised = withLimits(
    plan,
    findChangedLimits(plan, new Set(['a']), { timeoutMs: 300_000, maxTurns: 40, maxTokens: 10, maxCostUsd: 1 }),
  );
  expect(raised).toMatchObject({ timeoutMs: 330_000, budget: { maxTurns: 40, maxTokens: 100 } });
  expect(raised.budget).not.toHaveProperty('maxCostUsd');
  const lower = withLimits(plan, findChangedLimits(plan, new Set(['a']), { timeoutMs: 1_000, maxTurns: 1 }));
  expect(lower).toMatchObject({ timeoutMs: 90_000, budget: { maxTurns: 5 } });
});

test('later limits win over those of an earlier retry', () => {
  const plan = withAgent(withAgent(planOf('a b'), 'a'), 'b');
  const first = findChangedLimits(plan, new Set(['a', 'b']), { timeoutMs: 100_000 });
  const joined = joinLimits(first, findChangedLimits(plan, new Set(['b']), { timeoutMs: 200_000 }))!;
  expect([stageOf(withLimits(plan, joined), 'a').timeoutMs, stageOf(withLimits(plan, joined), 'b').timeoutMs]).toEqual([
    100_000, 200_000,
  ]);
  expect(joinLimits(undefined, { stages: {} })).toBeUndefined();
});

test('a limit of cost needs a price, and each limit has a range', () => {
  const plan = withAgent(planOf('a'), 'a');
  expect(findCostProblem(stageOf(plan, 'a'), { maxCostUsd: 1 })).toContain('needs a price: ');
  expect(findCostProblem(stageOf(plan, 'a'), { maxTurns: 1 })).toBeNull();
  const priced = withAgent(plan, 'a', { llm: { ...LLM, price: { inputUsd: 1, outputUsd: 1 } } });
  expect(findCostProblem(stageOf(priced, 'a'), { maxCostUsd: 1 })).toBeNull();
  expect([
    isLimit('timeoutMs', 999),
    isLimit('maxTurns', 1.5),
    isLimit('maxTokens', '5'),
    isLimit('maxCostUsd', 0.5),
  ]).toEqual([false, false, false, true]);
});
