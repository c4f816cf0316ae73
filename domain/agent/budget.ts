/** The use of an agent in the units of its budget, and which limit the use exceeds. */
import type { AgentWork, BudgetPlan, LlmPlan, LlmProvider, PricePlan } from '../plan/plan.ts';
import { cliOf } from './agent-cli.ts';
import { quote } from '../units/quote.ts';

export interface ModelUse {
  /** All tokens that the model read, cached or not. */
  readonly inputTokens: number;
  /** The part of `inputTokens` that came from a cache. */
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
  /** Calls of the model. */
  readonly turns: number;
  /** Null: the cost is unknown. */
  readonly costUsd: number | null;
}

export const NO_USE: ModelUse = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, turns: 0, costUsd: null };

const TOKENS_OF_PRICE = 1_000_000;

/** Models on the worker's own host. Their use costs nothing. */
const FREE: readonly LlmProvider[] = ['ollama', 'lm-studio'];
/** Providers whose price their command line knows. `custom` is another server that the same command line calls. */
const TELLS_COST: readonly LlmProvider[] = ['claude', 'claude-personal'];

export const PRICE_REMEDY =
  'write `price: { input: NUMBER, output: NUMBER }` in `llm`, in US dollars for a million tokens';

/** A guest may report any number. The log rejects numbers above this limit. */
export function sumCounts(...counts: readonly number[]): number {
  return Math.min(
    Number.MAX_SAFE_INTEGER,
    counts.reduce((sum, count) => sum + count, 0),
  );
}

/** The sum of the known costs. The cost is null only if both are unknown. */
export function sumUse(a: ModelUse, b: ModelUse): ModelUse {
  const isTold = a.costUsd !== null || b.costUsd !== null;
  return {
    inputTokens: sumCounts(a.inputTokens, b.inputTokens),
    cachedInputTokens: sumCounts(a.cachedInputTokens, b.cachedInputTokens),
    outputTokens: sumCounts(a.outputTokens, b.outputTokens),
    turns: sumCounts(a.turns, b.turns),
    costUsd: isTold ? Math.min(Number.MAX_SAFE_INTEGER, (a.costUsd ?? 0) + (b.costUsd ?? 0)) : null,
  };
}

/** The tokens used since `before`. Calls and cost stay as in `use`, because each report counts them separately. */
export function useSince<U extends ModelUse>(use: U, before: ModelUse): U {
  return {
    ...use,
    inputTokens: Math.max(0, use.inputTokens - before.inputTokens),
    cachedInputTokens: Math.max(0, use.cachedInputTokens - before.cachedInputTokens),
    outputTokens: Math.max(0, use.outputTokens - before.outputTokens),
  };
}

/** The larger of each count of two reports about the same agent. Neither report counts too much. */
export function findLargestUse<U extends ModelUse>(a: U, b: ModelUse): U {
  return {
    ...a,
    inputTokens: Math.max(a.inputTokens, b.inputTokens),
    outputTokens: Math.max(a.outputTokens, b.outputTokens),
    cachedInputTokens: Math.max(a.cachedInputTokens, b.cachedInputTokens),
    turns: Math.max(a.turns, b.turns),
    costUsd: a.costUsd === null || b.costUsd === null ? (a.costUsd ?? b.costUsd) : Math.max(a.costUsd, b.costUsd),
  };
}

export function computePrice(
  { inputTokens, cachedInputTokens, outputTokens }: Omit<ModelUse, 'turns' | 'costUsd'>,
  { inputUsd, cachedInputUsd = inputUsd, outputUsd }: PricePlan,
): number {
  const cached = Math.min(cachedInputTokens, inputTokens);
  const usd = (inputTokens - cached) * inputUsd + cached * cachedInputUsd + outputTokens * outputUsd;
  return usd / TOKENS_OF_PRICE;
}

/**
 * Replaces the cost with the price of the plan, if the plan has one. A command line only knows the prices of its own
 * provider's models.
 */
export function withPrice<U extends ModelUse>(use: U, llm: Pick<LlmPlan, 'price'> | null): U {
  return llm?.price === undefined ? use : { ...use, costUsd: computePrice(use, llm.price) };
}

/**
 * Aliases of models in Claude Code; each also exists with the suffix `[1m]`. Every longer name contains `claude-`, also
 * with the prefixes of clouds.
 */
const CLAUDE_ALIASES = ['best', 'default', 'fable', 'haiku', 'opus', 'opusplan', 'sonnet'];

/** Whether the plan lets Voidbox know the cost of the agent when its turn ends, or earlier. */
export function isCostKnown(llm: Pick<LlmPlan, 'provider' | 'model' | 'price'> | null): boolean {
  return explainUnknownCost(llm) === null;
}

/** Returns the reason why the cost is unknown, as the end of a sentence; null: it is known. */
export function explainUnknownCost(llm: Pick<LlmPlan, 'provider' | 'model' | 'price'> | null): string | null {
  if (llm === null || llm.price !== undefined || FREE.includes(llm.provider)) return null;
  if (!TELLS_COST.includes(llm.provider)) return `${cliOf(llm)} does not say what the provider ${llm.provider} asks`;
  return llm.model === null || isModelOfClaude(llm.model)
    ? null
    : `claude has no price for the model ${quote(llm.model)}`;
}

function isModelOfClaude(model: string): boolean {
  const name = model.trim().toLowerCase();
  return name.includes('claude-') || CLAUDE_ALIASES.includes(name.replace(/\[1m\]$/, ''));
}

/** Describes models whose prices Claude Code guesses, according to Claude Code. */
export function describeMissingPrice(models: readonly string[]): string {
  return `claude has no price for the model ${models.map((model) => JSON.stringify(model)).join(', ')}; ${PRICE_REMEDY}`;
}

/** Explains why the rest of a cost limit cannot be computed; null: the cost is known, or has no limit. */
export function explainUnknownUse(
  { budget, llm }: Pick<AgentWork, 'budget' | 'llm'>,
  unpricedModels: readonly string[],
): string | null {
  if (unpricedModels.length === 0 || budget?.maxCostUsd === undefined || llm?.price !== undefined) return null;
  return `has an unknown cost: ${describeMissingPrice(unpricedModels)}`;
}

/** Whether the cost of the agent is known after each of its calls. */
export function isCostKnownByCall(llm: Pick<LlmPlan, 'provider' | 'price'> | null): boolean {
  return llm !== null && (llm.price !== undefined || FREE.includes(llm.provider));
}

/** Sums of dollars are not exact in binary. One token of the cheapest model costs more than this. */
const LEAST_USD = 1e-9;

function dollarsLeft(usd: number): number {
  return Math.abs(usd) < LEAST_USD ? 0 : usd;
}

/** The rest of a budget; a limit that is used up is 0 or less. */
export function computeBudgetLeft(
  budget: BudgetPlan,
  { inputTokens, outputTokens, turns, costUsd }: ModelUse,
): BudgetPlan {
  const { maxCostUsd, maxTokens, maxTurns } = budget;
  return {
    ...(maxCostUsd === undefined ? {} : { maxCostUsd: dollarsLeft(maxCostUsd - (costUsd ?? 0)) }),
    ...(maxTokens === undefined ? {} : { maxTokens: maxTokens - inputTokens - outputTokens }),
    ...(maxTurns === undefined ? {} : { maxTurns: maxTurns - turns }),
  };
}

/** The used share of the limit that is closest to its end; 1 at a limit. */
export function shareOfBudget(budget: BudgetPlan, { inputTokens, outputTokens, turns, costUsd }: ModelUse): number {
  const { maxCostUsd, maxTokens, maxTurns } = budget;
  return Math.max(
    maxCostUsd === undefined ? 0 : (costUsd ?? 0) / maxCostUsd,
    maxTokens === undefined ? 0 : (inputTokens + outputTokens) / maxTokens,
    maxTurns === undefined ? 0 : turns / maxTurns,
  );
}
