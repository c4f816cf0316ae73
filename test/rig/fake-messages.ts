/** The Messages API of Anthropic, as far as Claude Code asks for it. */
import type { ServerResponse } from 'node:http';
import { beginStream, type ModelApi, type ModelStep, sendEvent, type StepContext } from './model-api.ts';

const SHELL = 'Bash';

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

function say(response: ServerResponse, step: ModelStep, context: StepContext): void {
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
  const isCall = 'run' in step;
  const block = isCall
    ? { type: 'tool_use', id: `toolu_${context.turn}`, name: shellOf(context), input: {} }
    : { type: 'text', text: '' };
  sendEvent(response, { type: 'content_block_start', index: 0, content_block: block });
  const text = 'say' in step ? step.say : 'cut' in step ? step.cut : '';
  const delta = isCall
    ? { type: 'input_json_delta', partial_json: JSON.stringify({ command: step.run, description: 'run it' }) }
    : { type: 'text_delta', text };
  sendEvent(response, { type: 'content_block_delta', index: 0, delta });
  if ('cut' in step) {
    // After what was written is on its way: a reset may overtake it.
    setTimeout(() => response.destroy(), 50);
    return;
  }
  sendEvent(response, { type: 'content_block_stop', index: 0 });
  const reason = isCall ? 'tool_use' : 'end_turn';
  sendEvent(response, {
    type: 'message_delta',
    delta: { stop_reason: reason, stop_sequence: null },
    usage: { output_tokens: 20 },
  });
  sendEvent(response, { type: 'message_stop' });
  response.end();
}

function shellOf({ tools }: StepContext): string {
  if (!tools.includes(SHELL)) throw new Error(`the tool ${SHELL} is not offered: ${tools.join(', ')}`);
  return SHELL;
}
