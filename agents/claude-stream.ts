/**
 * Reads the output of `claude --output-format stream-json`: one JSON object a line; the last one has the type `result`.
 */
import {
  amountOf,
  countOf,
  cut,
  type Fields,
  fieldsOf,
  listOf,
  parseLine,
  formatValue,
  textOf,
  textOfParts,
} from './fields.ts';
import {
  type AgentOutcome,
  type AgentSaying,
  type AgentStream,
  type AgentUsage,
  NO_USAGE,
  STREAM_LIMITS,
} from './stream.ts';
import { findLargestUse, describeMissingPrice, sumCounts, sumUse, useSince } from '../domain/agent/budget.ts';

/** The budget that an error result ran out of, by its `subtype`. */
const BUDGETS = {
  error_max_turns: { code: 'agent/budget-turns', what: 'made more turns than its `max_turns`' },
  error_max_budget_usd: { code: 'agent/budget-cost', what: 'cost more than its `max_cost_usd`' },
} as const;

/** Sources of prices that are not estimates: Claude Code's own list, and the prices that an administrator sets. */
const PRICE_LISTS: readonly unknown[] = ['list', 'managed'];
const MOST_UNPRICED = 4;

/** Whose lines may still come. */
const MOST_MESSAGES = 1_000;
/** Calls of tools at the same time whose names are known. */
const MOST_CALLED = 1_000;

/** `told`: as the stream says. It counts by Anthropic's list prices, also when another server answers. */
type CostOfCalls = 'told' | 'none' | 'unknown';

export function createClaudeStream({ cost = 'told' }: { readonly cost?: CostOfCalls } = {}): AgentStream {
  let sessionId: string | null = null;
  let model: string | null = null;
  let lastText: string | null = null;
  let usage: AgentUsage = cost === 'none' ? { ...NO_USAGE, costUsd: 0 } : NO_USAGE;
  /** One message comes in several lines, each with its usage so far; those of subagents come between them. */
  const counted = new Map<string, AgentUsage>();
  /** Names of tools by the ids of their calls that have not ended. */
  const called = new Map<string, string>();
  /** Read once: the outcome is asked for at each line. */
  let ended: Pick<AgentOutcome, 'text' | 'failure'> | null = null;
  let unpriced: readonly string[] = [];

  const assistant = (event: Fields): readonly AgentSaying[] => {
    const message = fieldsOf(event['message']);
    const sayings = listOf(message['content']).flatMap((part): readonly AgentSaying[] => {
      const { type, text, name, input, id } = fieldsOf(part);
      if (type === 'text' && typeof text === 'string' && text !== '') {
        // A subagent's words are not the agent's answer.
        if (textOf(event['parent_tool_use_id']) === null) lastText = text;
        return [{ kind: 'text', text }];
      }
      if (type !== 'tool_use' || typeof name !== 'string') return [];
      if (typeof id === 'string' && called.size < MOST_CALLED) called.set(shortName(id), shortName(name));
      return [{ kind: 'tool', tool: name, detail: detailOf(input), failed: false }];
    });
    if (message['usage'] === undefined) return sayings;
    const added = countUse(counted, textOf(message['id']), usageOfClaude(fieldsOf(message['usage'])));
    if (added === null) return sayings;
    usage = sumUse(usage, added);
    return [...sayings, { kind: 'usage', usage }];
  };

  return {
    line(text) {
      const event = ended === null ? parseLine(text) : null;
      if (event === null) return [];
      sessionId = textOf(event['session_id']) ?? sessionId;
      switch (event['type']) {
        case 'system':
          model = textOf(event['model']) ?? model;
          return readRefusedLogin(event);
        case 'assistant':
          return assistant(event);
        case 'user':
          return readToolEnds(event, called);
        case 'result': {
          if (cost === 'told') unpriced = unpricedModels(event);
          ended = readOutcome(event, lastText, unpriced);
          usage = { ...finalUsage(event, usage), costUsd: costOf(event, cost, unpriced) };
          return [{ kind: 'usage', usage }];
        }
        default:
          return [];
      }
    },
    outcome: () => ({
      sessionId,
      model,
      hasEnded: ended !== null,
      ...(ended ?? { text: lastText, failure: null }),
      usage,
      isUsageFinal: ended !== null,
      ...(unpriced.length === 0 ? {} : { unpricedModels: unpriced }),
    }),
  };
}

/**
 * Returns the use that a line of a message adds to its earlier lines; null: the line adds nothing.
 * @param counted  use of messages by their ids
 */
function countUse(counted: Map<string, AgentUsage>, id: string | null, told: AgentUsage): AgentUsage | null {
  if (id === null) return told;
  const name = shortName(id);
  const before = counted.get(name);
  const now = before === undefined ? told : findLargestUse(told, before);
  counted.set(name, now);
  const [oldest] = counted.keys();
  if (counted.size > MOST_MESSAGES) counted.delete(oldest!);
  if (before === undefined) return told;
  const added = { ...useSince(now, before), turns: 0 };
  return added.inputTokens + added.cachedInputTokens + added.outputTokens === 0 ? null : added;
}

/**
 * It asks ten times, with pauses that double: four minutes, in which nothing of a guest's key or login can change. Requests that
 * fail for other reasons are worth it.
 */
function readRefusedLogin(event: Fields): readonly AgentSaying[] {
  const { subtype, error_status: status, error } = event;
  if (subtype !== 'api_retry' || status !== 401) return [];
  const words = `the model's server refused its key or login (401 ${formatValue(error ?? '')})`;
  return [{ kind: 'login-refused', words }];
}

/** `is_error` decides: a failed call of the API has the subtype `success`. */
function readOutcome(
  result: Fields,
  lastText: string | null,
  unpriced: readonly string[],
): Pick<AgentOutcome, 'text' | 'failure'> {
  const said = textOf(result['result']);
  const structured = result['structured_output'];
  const text = structured === undefined || structured === null ? (said ?? lastText) : JSON.stringify(structured);
  const subtype = textOf(result['subtype']) ?? '';
  if (result['is_error'] === false && !subtype.startsWith('error')) return { text, failure: null };
  const budget = Object.hasOwn(BUDGETS, subtype) ? BUDGETS[subtype as keyof typeof BUDGETS] : null;
  if (budget?.code === 'agent/budget-cost' && unpriced.length > 0) {
    const message = `it stopped itself at its \`max_cost_usd\`, by a guess: ${describeMissingPrice(unpriced)}`;
    return { text, failure: { code: 'agent/budget-unknown', message } };
  }
  if (budget !== null) return { text, failure: { code: budget.code, message: `it ${budget.what}` } };
  const words = said ?? formatValue(result['errors'] ?? result['error'] ?? subtype);
  const isOfApi = subtype === 'success' || subtype === '';
  return {
    text,
    failure: { code: isOfApi ? 'agent/api-error' : 'agent/failed', message: words },
  };
}

function readToolEnds(event: Fields, called: Map<string, string>): readonly AgentSaying[] {
  const results = listOf(fieldsOf(event['message'])['content'])
    .map(fieldsOf)
    .filter(({ type }) => type === 'tool_result');
  const last = results.at(-1);
  if (last === undefined) return [];
  const end = `"tool_use_id":${JSON.stringify(shortName(textOf(last['tool_use_id']) ?? ''))}`;
  return [
    ...results.flatMap((result) => readToolEnd(result, called)),
    { kind: 'tool-ended', isIn: (sessions) => sessions.includes(end) },
  ];
}

function readToolEnd(
  { tool_use_id: id, is_error: isError, content }: Fields,
  called: Map<string, string>,
): readonly AgentSaying[] {
  const key = shortName(textOf(id) ?? '');
  const tool = called.get(key) ?? '';
  called.delete(key);
  const text = textOf(content) ?? textOfParts(listOf(content));
  const failed: readonly AgentSaying[] =
    isError === true ? [{ kind: 'tool', tool: '', detail: text, failed: true }] : [];
  // The line of a failure has all of a short one.
  const isTold = isError === true && text.length <= STREAM_LIMITS.detailCharacters && !text.trimEnd().includes('\n');
  return text === '' || isTold ? failed : [...failed, { kind: 'tool-output', tool, text }];
}

function shortName(name: string): string {
  return cut(name, STREAM_LIMITS.nameCharacters);
}

/** The one member that says most of a call, or all of it. */
function detailOf(input: unknown): string {
  const fields = fieldsOf(input);
  const telling = ['command', 'file_path', 'path', 'pattern', 'url', 'query', 'description'];
  const found = telling.map((name) => textOf(fields[name])).find((text) => text !== null);
  return formatValue(found ?? input ?? '');
}

export function usageOfClaude(fields: Fields): AgentUsage {
  const cached = countOf(fields['cache_read_input_tokens']);
  return {
    inputTokens: sumCounts(countOf(fields['input_tokens']), countOf(fields['cache_creation_input_tokens']), cached),
    outputTokens: countOf(fields['output_tokens']),
    cachedInputTokens: cached,
    turns: 1,
    costUsd: null,
  };
}

function finalUsage(result: Fields, soFar: AgentUsage): AgentUsage {
  const said = usageOfClaude(fieldsOf(result['usage']));
  const hasSaid = said.inputTokens + said.outputTokens > 0;
  return {
    ...(hasSaid ? said : soFar),
    turns: countOf(result['num_turns']) || soFar.turns,
  };
}

/** In a resumed session, `total_cost_usd` includes the cost of earlier commands. */
function costOf(result: Fields, cost: CostOfCalls, unpriced: readonly string[]): number | null {
  if (cost === 'none') return 0;
  if (cost === 'unknown' || unpriced.length > 0) return null;
  const own = usesOfModels(result, 'model_usage_since_last_result').map(([, use]) => amountOf(use['costUSD']));
  if (own.length === 0 || own.includes(null)) return amountOf(result['total_cost_usd']);
  return own.reduce<number>((sum, usd) => sum + (usd ?? 0), 0);
}

function usesOfModels(result: Fields, member: string): readonly (readonly [string, Fields])[] {
  return Object.entries(fieldsOf(result[member])).map(([model, use]) => [model, fieldsOf(use)]);
}

/** Claude Code counts a model that it does not know with the price of one that it knows. */
function unpricedModels(result: Fields): readonly string[] {
  return usesOfModels(result, 'modelUsage')
    .filter(([, { costBasis }]) => costBasis !== undefined && !PRICE_LISTS.includes(costBasis))
    .slice(0, MOST_UNPRICED)
    .map(([model]) => model);
}
