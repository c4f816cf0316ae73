import { expect, it } from 'vitest';
import { claude } from './claude.ts';

it('a budget in dollars that is nearly used up is an argument that the command line takes: more than 0', () => {
  const task = { prompt: 'x', llm: null, skills: [], outputSchema: undefined, resume: null };
  const told = (maxCostUsd: number): string | undefined => {
    const { args } = claude.command({ ...task, limits: { maxCostUsd } });
    return args[args.indexOf('--max-budget-usd') + 1];
  };
  expect([0.5, 0.000001, 0.0000004, 1e-8, 1e6].map(told)).toEqual([
    '0.500000',
    '0.000001',
    '0.000001',
    '0.000001',
    '1000000.000000',
  ]);
});
