/** The Responses API of OpenAI, as far as Codex asks for it. */
import {
  type ModelApi,
  findOfferedTool,
  type OfferedTool,
  piecesOf,
  type SpokenStep,
  type StepContext,
  type StreamEvent,
} from './model-api.ts';

const USAGE = {
  input_tokens: 1_000,
  input_tokens_details: { cached_tokens: 400 },
  output_tokens: 20,
  output_tokens_details: { reasoning_tokens: 5 },
  total_tokens: 1_020,
};

/** A shell, by the names that versions of Codex have given to it, and what it is called with. */
const SHELLS: Readonly<Record<string, (command: string) => unknown>> = {
  exec_command: (command) => ({ cmd: command }),
  shell_command: (command) => ({ command }),
  shell: (command) => ({ command: ['sh', '-c', command] }),
};

export const answerResponses: ModelApi = {
  conversation: 'input',
  // A message before a call is of the same answer.
  turnOf: (input) =>
    input.filter(
      ({ type, role }, index) =>
        type === 'function_call' || (role === 'assistant' && input[index + 1]?.['type'] !== 'function_call'),
    ).length,
  errorOf: ({ message }) => ({ error: { type: 'invalid_request_error', message } }),
  speak,
};

async function* speak(step: SpokenStep, context: StepContext): AsyncGenerator<StreamEvent> {
  const items = itemsOf(step, context);
  const id = `resp_${context.turn}`;
  const everyMs = 'everyMs' in step ? step.everyMs : undefined;
  yield { type: 'response.created', response: { id, model: context.model } };
  for (const [index, item] of items.entries()) {
    if (item.type === 'message' && ('cut' in step || everyMs !== undefined)) yield* onTheWay(index, item, everyMs);
    if ('cut' in step) return;
    yield { type: 'response.output_item.done', output_index: index, item };
  }
  yield { type: 'response.completed', response: { id, usage: USAGE } };
}

/** Streams the part of a message that comes before the whole message. */
async function* onTheWay(
  index: number,
  { id, content, ...begun }: Message,
  everyMs: number | undefined,
): AsyncGenerator<StreamEvent> {
  yield { type: 'response.output_item.added', output_index: index, item: { ...begun, id, content: [] } };
  for await (const delta of piecesOf(content[0].text, everyMs))
    yield { type: 'response.output_text.delta', item_id: id, output_index: index, delta };
}

interface Message {
  readonly type: 'message';
  readonly id: string;
  readonly role: 'assistant';
  readonly content: readonly [
    { readonly type: 'output_text'; readonly text: string; readonly annotations: readonly [] },
  ];
}

interface Call {
  readonly type: 'function_call';
  readonly id: string;
  readonly call_id: string;
  readonly name: string;
  readonly namespace?: string;
  readonly arguments: string;
}

function itemsOf(step: SpokenStep, context: StepContext): readonly (Message | Call)[] {
  const { turn, tools } = context;
  if ('say' in step) return [messageOf(step.say, turn)];
  if ('cut' in step) return [messageOf(step.cut, turn)];
  if ('answer' in step) return [messageOf(JSON.stringify(step.answer), turn)];
  if ('call' in step) return [callOf(findOfferedTool(step.call, context), step.input, turn)];
  const name = Object.keys(SHELLS).find((shell) => tools.has(shell));
  if (name === undefined) throw new Error(`no tool for a shell is offered: ${[...tools.keys()].join(', ')}`);
  const call = callOf({ name }, SHELLS[name]!(step.run), turn);
  return step.saying === undefined ? [call] : [messageOf(step.saying, turn), call];
}

function callOf(tool: OfferedTool, input: unknown, turn: number): Call {
  const text = JSON.stringify(input);
  return { type: 'function_call', id: `fc_${turn}`, call_id: `call_${turn}`, ...tool, arguments: text };
}

function messageOf(text: string, turn: number): Message {
  return {
    type: 'message',
    id: `msg_${turn}`,
    role: 'assistant',
    content: [{ type: 'output_text', text, annotations: [] }],
  };
}
