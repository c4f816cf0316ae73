/** What an agent took, in the units of its budget, and which limit that is over. */
import type { AgentWork, BudgetPlan, LlmPlan, LlmProvider, PricePlan } from '../plan/plan.ts';
import { cliOf } from './agent-cli.ts';
import { quote } from '../units/quote.ts';

export interface ModelUse {
  /** All that the model read, cached or not. */
  readonly inputTokens: number;
  /** The part of `inputTokens` that came from a cache. */
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
const TELLS_COST: readonly LlmProvider[] = ['claude', 'claude-personal'];

export const PRICE_REMEDY =
  'write `price: { input: NUMBER, output: NUMBER }` in `llm`, in US dollars for a million tokens';

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

/** Tokens without those of before; its calls and its cost are its own. */
export function useSince<U extends ModelUse>(use: U, before: ModelUse): U {
  return {
    ...use,
    inputTokens: Math.max(0, use.inputTokens - before.inputTokens),
    cachedInputTokens: Math.max(0, use.cachedInputTokens - before.cachedInputTokens),
    outputTokens: Math.max(0, use.outputTokens - before.outputTokens),
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

/** Of Claude Code; each also with `[1m]`. What it asks for by a longer name has `claude-` in it, with its prefixes of clouds. */
const CLAUDE_ALIASES = ['best', 'default', 'fable', 'haiku', 'opus', 'opusplan', 'sonnet'];

/** Whether what the agent costs is known at the end of its turn, at the latest, as far as its plan tells. */
export function isCostKnown(llm: Pick<LlmPlan, 'provider' | 'model' | 'price'> | null): boolean {
  return explainUnknownCost(llm) === null;
}

/** Goes on after "nobody knows what it costs: ". Null: it is known. */
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

/** Of models whose prices Claude Code guesses, as it says itself. */
export function describeMissingPrice(models: readonly string[]): string {
  return `claude has no price for the model ${models.map((model) => JSON.stringify(model)).join(', ')}; ${PRICE_REMEDY}`;
}

/** Why nothing of a limit for the cost can be said to be left; null: something is known of the cost. */
export function explainUnknownUse(
  { budget, llm }: Pick<AgentWork, 'budget' | 'llm'>,
  unpricedModels: readonly string[],
): string | null {
  if (unpricedModels.length === 0 || budget?.maxCostUsd === undefined || llm?.price !== undefined) return null;
  return `has an unknown cost: ${describeMissingPrice(unpricedModels)}`;
}

/** Whether what the agent costs is known at the end of each of its calls. */
export function isCostKnownByCall(llm: Pick<LlmPlan, 'provider' | 'price'> | null): boolean {
  return llm !== null && (llm.price !== undefined || FREE.includes(llm.provider));
}

/** Sums of dollars are not exact in binary; a token of the cheapest model costs more than this. */
const LEAST_USD = 1e-9;

function dollarsLeft(usd: number): number {
  return Math.abs(usd) < LEAST_USD ? 0 : usd;
}

/** What is left of a budget; a limit that is used up is 0 or less. */
export function budgetLeft(budget: BudgetPlan, { inputTokens, outputTokens, turns, costUsd }: ModelUse): BudgetPlan {
  const { maxCostUsd, maxTokens, maxTurns } = budget;
  return {
    ...(maxCostUsd === undefined ? {} : { maxCostUsd: dollarsLeft(maxCostUsd - (costUsd ?? 0)) }),
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
