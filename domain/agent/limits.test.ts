import { expect, test } from 'vitest';
import { NO_USE } from './budget.ts';
import { checkBudget, checkRunBudget, checkRunBudgetLeft } from './limits.ts';

test('a command that uses exactly the rest of its budget is within it, and an exceeded limit has a code and a text', () => {
  const used = { ...NO_USE, inputTokens: 900, outputTokens: 100, turns: 3, costUsd: 0.5 };
  expect(checkBudget({ maxTurns: 3, maxTokens: 1_000, maxCostUsd: 0.5 }, used)).toBeNull();
  expect(checkBudget({ maxTurns: 2 }, used)).toEqual({
    code: 'agent/budget-turns',
    words: 'made 3 calls of the model; 2 were left to it',
  });
  expect(checkBudget({ maxTokens: 999 }, used)).toEqual({
    code: 'agent/budget-tokens',
    words: 'used 1000 tokens; 999 were left to it',
  });
  expect(checkBudget({ maxCostUsd: 0.4 }, used)).toEqual({
    code: 'agent/budget-cost',
    words: 'cost $0.5000; $0.4000 were left to it',
  });
});

test('a run that uses exactly its budget is within it, and starts no further agent', () => {
  const used = { inputTokens: 60, outputTokens: 40, cachedInputTokens: 0, turns: 3, costUsd: 0.5 };
  const exact = { maxTokens: 100, maxTurns: 3, maxCostUsd: 0.5 };
  expect(checkRunBudget(exact, used)).toBeNull();
  expect(checkRunBudgetLeft(exact, used)).toMatchObject({ code: 'run/budget-turns' });
  expect(checkRunBudgetLeft({ maxTokens: 101, maxTurns: 4, maxCostUsd: 0.51 }, used)).toBeNull();
  expect(checkRunBudget({ maxTokens: 99 }, used)).toMatchObject({ code: 'run/budget-tokens' });
  expect(checkRunBudget({ maxCostUsd: 0.49 }, used)).toMatchObject({ code: 'run/budget-cost' });
});
