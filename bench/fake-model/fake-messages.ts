/** The Messages API of Anthropic, as far as Claude Code asks for it. */
import type { ServerResponse } from 'node:http';
import {
  beginStream,
  type ModelApi,
  type ModelStep,
  offeredTool,
  piecesOf,
  sendEvent,
  type StepContext,
} from './model-api.ts';

const SHELL = 'Bash';
/** Offered where the command line was given a schema. */
const SCHEMA_TOOL = 'StructuredOutput';

export const answerMessages: ModelApi = {
  read(body) {
    const messages = Array.isArray(body['messages']) ? (body['messages'] as readonly Record<string, unknown>[]) : [];
    const turn = messages.filter(({ role }) => role === 'assistant').length;
    const tools = Array.isArray(body['tools']) ? (body['tools'] as readonly Record<string, unknown>[]) : [];
    return {
      asked: { turn, conversation: JSON.stringify(messages) },
      context: { turn, model: String(body['model']), tools: tools.map(({ name }) => String(name)) },
    };
  },
  say,
};

async function say(response: ServerResponse, step: ModelStep, context: StepContext): Promise<void> {
  if ('status' in step) {
    response.writeHead(step.status, { 'content-type': 'application/json' });
    const type = step.status === 401 ? 'authentication_error' : 'invalid_request_error';
    response.end(JSON.stringify({ type: 'error', error: { type, message: step.message } }));
    return;
  }
  beginStream(response);
  const usage = { input_tokens: 1_000, cache_read_input_tokens: 400, output_tokens: 1 };
  const message = { id: `msg_${context.turn}`, type: 'message', role: 'assistant', model: context.model };
  sendEvent(response, {
    type: 'message_start',
    message: { ...message, content: [], stop_reason: null, stop_sequence: null, usage },
  });
  for (const [index, block] of blocksOf(step, context).entries()) {
    const { whole, deltas, ...start } = block;
    sendEvent(response, { type: 'content_block_start', index, content_block: start });
    for await (const delta of deltas) sendEvent(response, { type: 'content_block_delta', index, delta });
    if (whole) sendEvent(response, { type: 'content_block_stop', index });
  }
  if ('cut' in step) {
    // After what was written is on its way: a reset may overtake it.
    setTimeout(() => response.destroy(), 50);
    return;
  }
  const reason = isCall(step, context) ? 'tool_use' : 'end_turn';
  sendEvent(response, {
    type: 'message_delta',
    delta: { stop_reason: reason, stop_sequence: null },
    usage: { output_tokens: 20 },
  });
  sendEvent(response, { type: 'message_stop' });
  response.end();
}

/** What a block begins with, what then comes, and whether it ends. */
interface Block {
  readonly type: string;
  readonly deltas: AsyncIterable<Readonly<Record<string, unknown>>> | Iterable<Readonly<Record<string, unknown>>>;
  readonly whole: boolean;
}

type SpokenStep = Exclude<ModelStep, { readonly status: number }>;

function blocksOf(step: SpokenStep, context: StepContext): readonly Block[] {
  if ('say' in step) return [textBlock(step.say, step.everyMs)];
  if ('cut' in step) return [{ ...textBlock(step.cut), whole: false }];
  if ('answer' in step)
    return [
      isCall(step, context) ? callBlock(SCHEMA_TOOL, step.answer, context) : textBlock(JSON.stringify(step.answer)),
    ];
  if ('call' in step) return [callBlock(offeredTool(step.call, context), step.input, context)];
  const call = callBlock(offeredTool(SHELL, context), { command: step.run, description: 'run it' }, context);
  return step.saying === undefined ? [call] : [textBlock(step.saying, step.everyMs), call];
}

function isCall(step: SpokenStep, { tools }: StepContext): boolean {
  return 'run' in step || 'call' in step || ('answer' in step && tools.includes(SCHEMA_TOOL));
}

function textBlock(text: string, everyMs?: number): Block & { readonly text: '' } {
  return { type: 'text', text: '', deltas: textDeltas(text, everyMs), whole: true };
}

async function* textDeltas(
  text: string,
  everyMs: number | undefined,
): AsyncGenerator<{ readonly type: string; readonly text: string }> {
  for await (const piece of piecesOf(text, everyMs)) yield { type: 'text_delta', text: piece };
}

function callBlock(
  name: string,
  input: unknown,
  { turn }: StepContext,
): Block & { readonly id: string; readonly name: string; readonly input: object } {
  const delta = { type: 'input_json_delta', partial_json: JSON.stringify(input) };
  return { type: 'tool_use', id: `toolu_${turn}`, name, input: {}, deltas: [delta], whole: true };
}
