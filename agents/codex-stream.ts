/**
 * Reads the output of `codex exec --json`: one JSON object a line; a turn ends with `turn.completed` or `turn.failed`.
 */
import { countOf, type Fields, fieldsOf, listOf, parseLine, formatValue, textOf, textOfParts } from './fields.ts';
import { findLargestUse } from '../domain/agent/budget.ts';
import { type AgentSaying, type AgentStream, type AgentUsage, NO_USAGE, type SessionBytes } from './stream.ts';

export function createCodexStream(): AgentStream {
  let sessionId: string | null = null;
  let lastText: string | null = null;
  let usage: AgentUsage = NO_USAGE;
  let hasEnded = false;
  let failure: string | null = null;
  /** A failed turn reports no usage. */
  let isUsageFinal = false;

  return {
    line(text) {
      const event = parseLine(text);
      switch (event?.['type']) {
        case 'thread.started':
          sessionId = textOf(event['thread_id']) ?? sessionId;
          return [];
        case 'item.completed': {
          const item = fieldsOf(event['item']);
          if (item['type'] === 'agent_message') lastText = textOf(item['text']) ?? lastText;
          return withEnd(sayingsOf(item));
        }
        case 'error':
          return readRefusedLogin(textOf(event['message']));
        case 'turn.started':
          hasEnded = false;
          isUsageFinal = false;
          return [];
        case 'turn.completed':
          hasEnded = true;
          isUsageFinal = true;
          // The event reports the usage of the whole session so far.
          usage = findLargestUse(usage, { ...usageOfCodex(fieldsOf(event['usage'])), turns: usage.turns + 1 });
          return [{ kind: 'usage', usage }];
        case 'turn.failed':
          hasEnded = true;
          failure = failureIn(fieldsOf(event['error'])) ?? 'its turn failed';
          return [];
        default:
          return [];
      }
    },
    outcome: () => ({
      sessionId,
      model: null,
      hasEnded,
      text: lastText,
      failure: failure === null ? null : { code: 'agent/api-error', message: failure },
      usage,
      isUsageFinal,
    }),
  };
}

/** It tells each try that failed; a key or login that is refused once is refused again. */
function readRefusedLogin(message: string | null): readonly AgentSaying[] {
  if (message === null || !/\bunexpected status 401\b/.test(message)) return [];
  return [{ kind: 'login-refused', words: `the model's server refused its key or login (${message})` }];
}

/** An item of a tool comes when its call is over. */
function withEnd(sayings: readonly AgentSaying[]): readonly AgentSaying[] {
  return sayings.some(({ kind }) => kind === 'tool')
    ? [...sayings, { kind: 'tool-ended', isIn: hasNoOpenCall }]
    : sayings;
}

const CALLS = ['function_call', 'custom_tool_call', 'local_shell_call'];
const OUTPUTS = ['function_call_output', 'custom_tool_call_output'];

/**
 * Counts calls, because the stream and the session name a call differently. On resume, Codex treats a call without
 * output as aborted.
 */
function hasNoOpenCall(sessions: SessionBytes): boolean {
  const count = (types: readonly string[]): number =>
    types.reduce((sum, type) => sum + occurrencesOf(`"type":"${type}"`, sessions), 0);
  return count(CALLS) <= count(OUTPUTS);
}

function occurrencesOf(words: string, bytes: SessionBytes): number {
  let count = 0;
  for (let at = bytes.indexOf(words); at >= 0; at = bytes.indexOf(words, at + words.length)) count += 1;
  return count;
}

/** An error of the API may come as its body, in JSON. */
function failureIn(error: Fields): string | null {
  const message = textOf(error['message']);
  const body = message === null ? null : parseLine(message);
  return textOf(fieldsOf(body?.['error'])['message']) ?? message;
}

function sayingsOf(item: Fields): readonly AgentSaying[] {
  const type = textOf(item['type']);
  const failed = item['status'] === 'failed' || (typeof item['exit_code'] === 'number' && item['exit_code'] !== 0);
  const tool = (name: string, detail: unknown, output: string | null = null): readonly AgentSaying[] => [
    { kind: 'tool', tool: name, detail: formatValue(detail ?? ''), failed },
    ...(output === null || output === '' ? [] : [{ kind: 'tool-output', tool: name, text: output } as const]),
  ];
  switch (type) {
    case 'agent_message': {
      const text = textOf(item['text']);
      return text === null || text === '' ? [] : [{ kind: 'text', text }];
    }
    case 'command_execution':
      return tool('command', item['command'], textOf(item['aggregated_output']));
    case 'file_change':
      return tool(
        'file_change',
        listOf(item['changes'])
          .map((change) => textOf(fieldsOf(change)['path']) ?? '')
          .join(' '),
      );
    case 'mcp_tool_call':
      return tool(
        `${textOf(item['server']) ?? ''}.${textOf(item['tool']) ?? ''}`,
        item['arguments'],
        outputOfMcp(item),
      );
    case 'web_search':
      return tool('web_search', item['query']);
    // The transcript has reasoning and to-do lists; an `error` item is a warning.
    case 'reasoning':
    case 'todo_list':
    case 'error':
    case null:
      return [];
    default:
      return tool(type, '');
  }
}

function outputOfMcp({ result, error }: Fields): string {
  const text = textOfParts(listOf(fieldsOf(result)['content']));
  return text === '' ? (textOf(fieldsOf(error)['message']) ?? '') : text;
}

/** Reads the session's total use from a line of its file. Null: the line reports no use. */
export function sessionUseOfCodex(line: string): AgentUsage | null {
  const total = tokenCountOfCodex(line)?.['total_token_usage'];
  return total === undefined ? null : { ...usageOfCodex(fieldsOf(total)), turns: 0 };
}

/**
 * Reads from a line of a session's file the use of one model call and of the session so far. Null: the line has
 * neither.
 */
export function tokenCountOfCodex(line: string): Fields | null {
  const event = parseLine(line);
  const payload = event?.['type'] === 'event_msg' ? fieldsOf(event['payload']) : {};
  const info = fieldsOf(payload['info']);
  return payload['type'] === 'token_count' && info['last_token_usage'] !== undefined ? info : null;
}

export function usageOfCodex(fields: Fields): Omit<AgentUsage, 'turns'> {
  return {
    inputTokens: countOf(fields['input_tokens']),
    outputTokens: countOf(fields['output_tokens']),
    cachedInputTokens: countOf(fields['cached_input_tokens']),
    costUsd: null,
  };
}
