/** The parts of an agent: its model, budget and skills. */
import type { SKILL_TYPES } from '../../domain/language/grammar/agent-table.ts';
import type { LlmProvider } from '../../domain/plan/plan.ts';
import { BUDGET_KEYS, LLM_KEYS, PRICE_KEYS } from '../known-options.ts';
import { checkOptions } from '../options.ts';
import type { SpecObject } from './stage.ts';
import type { Env } from './values.ts';

/** The model that an agent uses. */
export interface Llm {
  readonly provider: LlmProvider;
  readonly model?: string;
  readonly baseUrl?: string;
  /** A variable of the host. */
  readonly apiKeyEnv?: string;
  readonly credentialProxy?: boolean;
  /** Overrides the costs that the agent's command line reports. */
  readonly price?: Price;
}

/** US dollars for a million tokens. */
export interface Price {
  readonly input: number;
  /** Default: the price of `input`. */
  readonly cachedInput?: number;
  readonly output: number;
}

/** At least one limit. */
export interface Budget {
  readonly maxCostUsd?: number;
  /** Tokens that all calls together read and write. */
  readonly maxTokens?: number;
  /** Calls of the model. */
  readonly maxTurns?: number;
}

/** A text such as `file:skills/review.md`, an image, an MCP server, or a document. */
export type AgentSkill =
  | `${(typeof SKILL_TYPES)[number]}:${string}`
  | { readonly image: string; readonly mount: string; readonly readonly?: boolean }
  | { readonly command: string; readonly args?: readonly string[]; readonly env?: Env }
  | { readonly name: string; readonly content: string };

export function writeLlm(llm: Llm | undefined, of: string): SpecObject | undefined {
  if (llm === undefined) return undefined;
  checkOptions(`\`llm\` ${of}`, llm, LLM_KEYS);
  const { provider, model, baseUrl, apiKeyEnv, credentialProxy, price } = llm;
  return {
    provider,
    model,
    base_url: baseUrl,
    api_key_env: apiKeyEnv,
    credential_proxy: credentialProxy,
    price: writePrice(price, of),
  };
}

function writePrice(price: Price | undefined, of: string): SpecObject | undefined {
  if (price === undefined) return undefined;
  checkOptions(`\`price\` of \`llm\` ${of}`, price, PRICE_KEYS);
  const { input, cachedInput, output } = price;
  return { input, cached_input: cachedInput, output };
}

export function writeBudget(budget: Budget | undefined, of: string): SpecObject | undefined {
  if (budget === undefined) return undefined;
  checkOptions(`\`budget\` ${of}`, budget, BUDGET_KEYS);
  const { maxCostUsd, maxTokens, maxTurns } = budget;
  return { max_cost_usd: maxCostUsd, max_tokens: maxTokens, max_turns: maxTurns };
}
