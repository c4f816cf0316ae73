/** The Responses API of OpenAI, as far as Codex asks for it. */
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
  read(body) {
    const input = Array.isArray(body['input']) ? (body['input'] as readonly Record<string, unknown>[]) : [];
    // A message before a call is of the same answer.
    const turn = input.filter(
      ({ type, role }, index) =>
        type === 'function_call' || (role === 'assistant' && input[index + 1]?.['type'] !== 'function_call'),
    ).length;
    const tools = Array.isArray(body['tools']) ? (body['tools'] as readonly Record<string, unknown>[]) : [];
    return {
      asked: { turn, conversation: JSON.stringify(input) },
      context: { turn, model: String(body['model']), tools: tools.map(({ name }) => String(name)) },
    };
  },
  say,
};

async function say(response: ServerResponse, step: ModelStep, context: StepContext): Promise<void> {
  if ('status' in step) {
    response.writeHead(step.status, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: { type: 'invalid_request_error', message: step.message } }));
    return;
  }
  const id = `resp_${context.turn}`;
  beginStream(response);
  sendEvent(response, { type: 'response.created', response: { id, model: context.model } });
  if ('cut' in step) {
    const item = `msg_${context.turn}`;
    beginMessage(response, 0, item);
    sendEvent(response, { type: 'response.output_text.delta', item_id: item, output_index: 0, delta: step.cut });
    response.end();
    return;
  }
  const everyMs = 'everyMs' in step ? step.everyMs : undefined;
  for (const [index, item] of itemsOf(step, context).entries()) {
    if (everyMs !== undefined && item.type === 'message') await sayOnTheWay(response, index, item, everyMs);
    sendEvent(response, { type: 'response.output_item.done', output_index: index, item });
  }
  sendEvent(response, { type: 'response.completed', response: { id, usage: USAGE } });
  response.end();
}

function beginMessage(response: ServerResponse, index: number, id: string): void {
  const begun = { type: 'message', id, role: 'assistant', content: [] };
  sendEvent(response, { type: 'response.output_item.added', output_index: index, item: begun });
}

/** What comes of a message before it is whole. */
async function sayOnTheWay(response: ServerResponse, index: number, message: Message, everyMs: number): Promise<void> {
  const { id, content } = message;
  beginMessage(response, index, id);
  for await (const delta of piecesOf(content[0].text, everyMs))
    sendEvent(response, { type: 'response.output_text.delta', item_id: id, output_index: index, delta });
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
  readonly arguments: string;
}

type WholeStep = Exclude<ModelStep, { readonly status: number } | { readonly cut: string }>;

function itemsOf(step: WholeStep, context: StepContext): readonly (Message | Call)[] {
  const { turn, tools } = context;
  if ('say' in step) return [messageOf(step.say, turn)];
  if ('answer' in step) return [messageOf(JSON.stringify(step.answer), turn)];
  if ('call' in step) return [callOf(offeredTool(step.call, context), step.input, turn)];
  const name = Object.keys(SHELLS).find((shell) => tools.includes(shell));
  if (name === undefined) throw new Error(`no tool for a shell is offered: ${tools.join(', ')}`);
  const call = callOf(name, SHELLS[name]!(step.run), turn);
  return step.saying === undefined ? [call] : [messageOf(step.saying, turn), call];
}

function callOf(name: string, input: unknown, turn: number): Call {
  const text = JSON.stringify(input);
  return { type: 'function_call', id: `fc_${turn}`, call_id: `call_${turn}`, name, arguments: text };
}

function messageOf(text: string, turn: number): Message {
  return {
    type: 'message',
    id: `msg_${turn}`,
    role: 'assistant',
    content: [{ type: 'output_text', text, annotations: [] }],
  };
}
