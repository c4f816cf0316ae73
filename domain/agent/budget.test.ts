import { expect, it } from 'vitest';
import { computeBudgetLeft, isCostKnown, type ModelUse, NO_USE, computePrice, sumUse, withPrice } from './budget.ts';

const USE = { inputTokens: 1_000_000, cachedInputTokens: 400_000, outputTokens: 100_000, turns: 3, costUsd: null };

it('a price counts cached input separately, and by default like other input', () => {
  expect(computePrice(USE, { inputUsd: 1, cachedInputUsd: 0.1, outputUsd: 10 })).toBeCloseTo(0.6 + 0.04 + 1);
  expect(computePrice(USE, { inputUsd: 1, outputUsd: 10 })).toBeCloseTo(2);
  // This stream lies: it reports more cached tokens than read tokens.
  expect(
    computePrice({ ...USE, cachedInputTokens: 9e9 }, { inputUsd: 1, cachedInputUsd: 0.1, outputUsd: 0 }),
  ).toBeCloseTo(0.1);
});

it('the price of the plan takes precedence over the cost that a command line reports', () => {
  const told = { ...USE, costUsd: 99 };
  expect(withPrice(told, { price: { inputUsd: 1, outputUsd: 10 } }).costUsd).toBeCloseTo(2);
  expect(withPrice(told, {}).costUsd).toBe(99);
  expect(withPrice(told, null).costUsd).toBe(99);
});

it('a budget that is used up has 0 left', () => {
  expect(computeBudgetLeft({ maxTokens: 1_100_000, maxTurns: 2, maxCostUsd: 1 }, USE)).toEqual({
    maxTokens: 0,
    maxTurns: -1,
    maxCostUsd: 1,
  });
  expect(computeBudgetLeft({ maxTurns: 5 }, USE)).toEqual({ maxTurns: 2 });
});

it('costs that add up to a budget in dollars use it up exactly, whatever rounding in binary adds', () => {
  const costing = (...costs: readonly number[]): ModelUse =>
    costs.reduce((sum, costUsd) => sumUse(sum, { ...NO_USE, costUsd }), NO_USE);
  expect(0.1 + 0.2).toBeGreaterThan(0.3);
  expect(computeBudgetLeft({ maxCostUsd: 0.3 }, costing(0.1, 0.2))).toEqual({ maxCostUsd: 0 });
  expect(computeBudgetLeft({ maxCostUsd: 0.8 }, costing(0.1, 0.7))).toEqual({ maxCostUsd: 0 });
  expect(computeBudgetLeft(computeBudgetLeft({ maxCostUsd: 0.3 }, costing(0.1)), costing(0.2))).toEqual({
    maxCostUsd: 0,
  });
  expect(computeBudgetLeft({ maxCostUsd: 1 }, costing(...Array<number>(1_000).fill(0.001)))).toEqual({ maxCostUsd: 0 });
  // A cost above the rest counts: a token of the cheapest model costs more than the rounding.
  expect(computeBudgetLeft({ maxCostUsd: 0.3 }, costing(0.3, 1e-8)).maxCostUsd).toBeLessThan(0);
  expect(computeBudgetLeft({ maxCostUsd: 0.3 }, costing(0.3 - 1e-8)).maxCostUsd).toBeGreaterThan(0);
});

it('the cost is known for providers whose command line reports it, and for all others if the plan has a price', () => {
  expect(isCostKnown(null)).toBe(true);
  expect(isCostKnown({ provider: 'ollama', model: 'qwen3-coder:7b' })).toBe(true);
  for (const provider of ['codex', 'custom'] as const) {
    expect(isCostKnown({ provider, model: null })).toBe(false);
    expect(isCostKnown({ provider, model: null, price: { inputUsd: 0, outputUsd: 0 } })).toBe(true);
  }
});

it('the cost is known for models for which Claude Code may have prices', () => {
  for (const model of [
    null,
    'sonnet',
    'Opus',
    'opus[1m]',
    'opusplan',
    'default',
    'claude-opus-4-5',
    'CLAUDE-opus-4-5[1m]',
    'anthropic/claude-opus-4-5',
    'us.anthropic.claude-opus-4-5-20251101-v1:0',
  ])
    expect(isCostKnown({ provider: 'claude', model }), String(model)).toBe(true);
  for (const model of ['my-finetune-7', 'gpt-5', 'sonnet-7', 'opus[2m]', 'claude', 'qwen3-coder:7b', ''])
    for (const provider of ['claude', 'claude-personal'] as const) {
      expect(isCostKnown({ provider, model }), model).toBe(false);
      expect(isCostKnown({ provider, model, price: { inputUsd: 0, outputUsd: 0 } })).toBe(true);
    }
});
