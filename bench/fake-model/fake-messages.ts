/** The Messages API of Anthropic, as far as Claude Code asks for it. */
import {
  type ModelApi,
  findOfferedTool,
  type OfferedTool,
  piecesOf,
  type SpokenStep,
  type StepContext,
  type StreamEvent,
} from './model-api.ts';

const SHELL = 'Bash';
/** Offered where the command line was given a schema. */
const SCHEMA_TOOL = 'StructuredOutput';

export const answerMessages: ModelApi = {
  conversation: 'messages',
  turnOf: (messages) => messages.filter(({ role }) => role === 'assistant').length,
  errorOf: ({ status, message }) => ({
    type: 'error',
    error: { type: status === 401 ? 'authentication_error' : 'invalid_request_error', message },
  }),
  speak,
};

async function* speak(step: SpokenStep, context: StepContext): AsyncGenerator<StreamEvent> {
  const blocks = blocksOf(step, context);
  const usage = { input_tokens: 1_000, cache_read_input_tokens: 400, output_tokens: 1 };
  const message = { id: `msg_${context.turn}`, type: 'message', role: 'assistant', model: context.model };
  yield { type: 'message_start', message: { ...message, content: [], stop_reason: null, stop_sequence: null, usage } };
  for (const [index, { deltas, ...start }] of blocks.entries()) {
    yield { type: 'content_block_start', index, content_block: start };
    for await (const delta of deltas) yield { type: 'content_block_delta', index, delta };
    if ('cut' in step) return;
    yield { type: 'content_block_stop', index };
  }
  const reason = isCall(step, context) ? 'tool_use' : 'end_turn';
  yield {
    type: 'message_delta',
    delta: { stop_reason: reason, stop_sequence: null },
    usage: { output_tokens: 20 },
  };
  yield { type: 'message_stop' };
}

/** The type of a content block, and the deltas that follow its start. */
interface Block {
  readonly type: string;
  readonly deltas: AsyncIterable<Readonly<Record<string, unknown>>> | Iterable<Readonly<Record<string, unknown>>>;
}

function blocksOf(step: SpokenStep, context: StepContext): readonly Block[] {
  if ('say' in step) return [textBlock(step.say, step.everyMs)];
  if ('cut' in step) return [textBlock(step.cut)];
  if ('answer' in step)
    return [
      isCall(step, context)
        ? callBlock({ name: SCHEMA_TOOL }, step.answer, context)
        : textBlock(JSON.stringify(step.answer)),
    ];
  if ('call' in step) return [callBlock(findOfferedTool(step.call, context), step.input, context)];
  const call = callBlock(findOfferedTool(SHELL, context), { command: step.run, description: 'run it' }, context);
  return step.saying === undefined ? [call] : [textBlock(step.saying, step.everyMs), call];
}

function isCall(step: SpokenStep, { tools }: StepContext): boolean {
  return 'run' in step || 'call' in step || ('answer' in step && tools.has(SCHEMA_TOOL));
}

function textBlock(text: string, everyMs?: number): Block & { readonly text: '' } {
  return { type: 'text', text: '', deltas: textDeltas(text, everyMs) };
}

async function* textDeltas(
  text: string,
  everyMs: number | undefined,
): AsyncGenerator<{ readonly type: string; readonly text: string }> {
  for await (const piece of piecesOf(text, everyMs)) yield { type: 'text_delta', text: piece };
}

function callBlock(
  { name }: OfferedTool,
  input: unknown,
  { turn }: StepContext,
): Block & { readonly id: string; readonly name: string; readonly input: object } {
  const delta = { type: 'input_json_delta', partial_json: JSON.stringify(input) };
  return { type: 'tool_use', id: `toolu_${turn}`, name, input: {}, deltas: [delta] };
}
