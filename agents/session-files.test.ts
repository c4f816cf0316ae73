import { describe, expect, it } from 'vitest';
import { createSessionReader, sessionFollower } from './session-files.ts';
import type { AgentUsage } from './stream.ts';

const SESSION = '01a20e4f-499c-73c1-8912-0b6c6e66e01b';

const figures = ({ inputTokens, outputTokens, cachedInputTokens, turns }: AgentUsage): readonly number[] => [
  inputTokens,
  outputTokens,
  cachedInputTokens,
  turns,
];

function read(cli: 'claude' | 'codex', lines: readonly (object | string)[]): readonly (readonly number[] | null)[] {
  const reader = createSessionReader(cli);
  return lines.map((line) => {
    const usage = reader.line(typeof line === 'string' ? line : JSON.stringify(line));
    return usage === null ? null : figures(usage);
  });
}

const call = (total: number, info: object | null = {}): object => ({
  type: 'event_msg',
  payload: {
    type: 'token_count',
    info: info && {
      total_token_usage: { input_tokens: total },
      last_token_usage: { input_tokens: 1_000, cached_input_tokens: 400, output_tokens: 20, ...info },
    },
  },
});

const message = (id: string, output: number, more: object = {}): object => ({
  type: 'assistant',
  message: { id, usage: { input_tokens: 100, cache_read_input_tokens: 50, output_tokens: output }, ...more },
});

describe('the session file', () => {
  it('the file of codex counts each call once, also if its total is repeated', () => {
    expect(read('codex', [call(1_000), call(1_000), call(2_000, { output_tokens: 7 })])).toEqual([
      [1_000, 20, 400, 1],
      null,
      [2_000, 27, 800, 2],
    ]);
  });

  it('the file of claude counts each message once, by its last line', () => {
    expect(read('claude', [message('a', 1), message('a', 20), message('b', 5)])).toEqual([
      [150, 1, 50, 1],
      [150, 20, 50, 1],
      [300, 25, 100, 2],
    ]);
  });

  it('may hold anything: what is no use of the model counts for nothing', () => {
    expect(read('codex', ['no json', '[]', '{"type":"event_msg"}', call(1, null)])).toEqual([null, null, null, null]);
    expect(read('claude', [message('a', 1, { model: '<synthetic>' }), { type: 'assistant' }])).toEqual([null, null]);
    expect(read('codex', [call(1, { input_tokens: -5, cached_input_tokens: 'x', output_tokens: 1e300 })])).toEqual([
      [0, 0, 0, 1],
    ]);
  });

  it('forged lines in the file of claude lower no sum, and sums stay numbers that a log accepts', () => {
    const most = Number.MAX_SAFE_INTEGER;
    expect(read('claude', [message('a', 20), message('a', 0), message('a', -7), message('b', 5)])).toEqual([
      [150, 20, 50, 1],
      [150, 20, 50, 1],
      [150, 20, 50, 1],
      [300, 25, 100, 2],
    ]);
    expect(read('claude', [message('a', most), message('b', most), message('c', Infinity)])).toEqual([
      [150, most, 50, 1],
      [300, most, 100, 2],
      [450, most, 150, 3],
    ]);
  });

  it.each(['', '../../etc', `${SESSION}/x`, '*', "x' y", SESSION.toUpperCase()])(
    'is not looked for by %j, which is no id',
    (id) => expect(sessionFollower('codex', id, 'start')).toBeNull(),
  );

  it('is looked for by an id, as an argument and not as a part of the script', () => {
    const args = sessionFollower('claude', SESSION, 'end')!;
    expect(args.slice(2)).toEqual(['sh', SESSION, 'end']);
    expect(args[1]).not.toContain(SESSION);
  });
});
