/** What an agent took, in the units of its budget, and which limit that is over. */
import type { BudgetPlan, LlmPlan, LlmProvider, PricePlan } from '../plan/plan.ts';

export interface ModelUse {
  /** All that the model read, cached or not. */
  readonly inputTokens: number;
  /** Of `inputTokens`. */
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
  /** Calls of the model. */
  readonly turns: number;
  /** Null: nobody says. */
  readonly costUsd: number | null;
}

export const NO_USE: ModelUse = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, turns: 0, costUsd: null };

const TOKENS_OF_PRICE = 1_000_000;

/** Who bills nobody: a model of the worker's own host. */
const FREE: readonly LlmProvider[] = ['ollama', 'lm-studio'];
/** Whose command line knows what its provider asks. `custom` is another server behind the same command line. */
const TELLS_COST: readonly LlmProvider[] = ['claude', 'claude-personal', ...FREE];

/** What a guest says may be any number, and a sum beyond this is none that a log takes. */
export function sumOfCounts(...counts: readonly number[]): number {
  return Math.min(
    Number.MAX_SAFE_INTEGER,
    counts.reduce((sum, count) => sum + count, 0),
  );
}

/** The cost is that of those who tell one. */
export function sumOfUse(a: ModelUse, b: ModelUse): ModelUse {
  const isTold = a.costUsd !== null || b.costUsd !== null;
  return {
    inputTokens: sumOfCounts(a.inputTokens, b.inputTokens),
    cachedInputTokens: sumOfCounts(a.cachedInputTokens, b.cachedInputTokens),
    outputTokens: sumOfCounts(a.outputTokens, b.outputTokens),
    turns: sumOfCounts(a.turns, b.turns),
    costUsd: isTold ? Math.min(Number.MAX_SAFE_INTEGER, (a.costUsd ?? 0) + (b.costUsd ?? 0)) : null,
  };
}

/** Of two that say the same of an agent: neither says too much. */
export function largestUse<U extends ModelUse>(a: U, b: ModelUse): U {
  return {
    ...a,
    inputTokens: Math.max(a.inputTokens, b.inputTokens),
    outputTokens: Math.max(a.outputTokens, b.outputTokens),
    cachedInputTokens: Math.max(a.cachedInputTokens, b.cachedInputTokens),
    turns: Math.max(a.turns, b.turns),
    costUsd: a.costUsd === null || b.costUsd === null ? (a.costUsd ?? b.costUsd) : Math.max(a.costUsd, b.costUsd),
  };
}

export function priceOfUse(
  { inputTokens, cachedInputTokens, outputTokens }: Omit<ModelUse, 'turns' | 'costUsd'>,
  { inputUsd, cachedInputUsd = inputUsd, outputUsd }: PricePlan,
): number {
  const cached = Math.min(cachedInputTokens, inputTokens);
  const usd = (inputTokens - cached) * inputUsd + cached * cachedInputUsd + outputTokens * outputUsd;
  return usd / TOKENS_OF_PRICE;
}

/** By the price of the plan where it has one: what a command line says is of its own provider's models. */
export function withPrice<U extends ModelUse>(use: U, llm: Pick<LlmPlan, 'price'> | null): U {
  return llm?.price === undefined ? use : { ...use, costUsd: priceOfUse(use, llm.price) };
}

/** Whether what the agent costs is known at the end of its turn, at the latest. */
export function isCostKnown(llm: Pick<LlmPlan, 'provider' | 'price'> | null): boolean {
  return llm?.price !== undefined || TELLS_COST.includes(llm?.provider ?? 'claude');
}

/** Whether what the agent costs is known at the end of each of its calls. */
export function isCostKnownByCall(llm: Pick<LlmPlan, 'provider' | 'price'> | null): boolean {
  return llm !== null && (llm.price !== undefined || FREE.includes(llm.provider));
}

/** What is left of a budget; a limit that is used up is 0 or less. */
export function budgetLeft(budget: BudgetPlan, { inputTokens, outputTokens, turns, costUsd }: ModelUse): BudgetPlan {
  const { maxCostUsd, maxTokens, maxTurns } = budget;
  return {
    ...(maxCostUsd === undefined ? {} : { maxCostUsd: maxCostUsd - (costUsd ?? 0) }),
    ...(maxTokens === undefined ? {} : { maxTokens: maxTokens - inputTokens - outputTokens }),
    ...(maxTurns === undefined ? {} : { maxTurns: maxTurns - turns }),
  };
}

/** How much of a budget is used, of the limit that is nearest; 1 at a limit. */
export function shareOfBudget(budget: BudgetPlan, { inputTokens, outputTokens, turns, costUsd }: ModelUse): number {
  const { maxCostUsd, maxTokens, maxTurns } = budget;
  return Math.max(
    maxCostUsd === undefined ? 0 : (costUsd ?? 0) / maxCostUsd,
    maxTokens === undefined ? 0 : (inputTokens + outputTokens) / maxTokens,
    maxTurns === undefined ? 0 : turns / maxTurns,
  );
}
