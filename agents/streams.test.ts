import { Buffer } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createClaudeStream } from './claude-stream.ts';
import { createCodexStream } from './codex-stream.ts';
import { createLineReader } from './lines.ts';
import { type AgentOutcome, type AgentSaying, type AgentStream } from './stream.ts';

function recording(name: string): string {
  return readFileSync(new URL(`./recordings/${name}.jsonl`, import.meta.url), 'utf8');
}

function read(
  stream: AgentStream,
  text: string,
): { readonly sayings: readonly AgentSaying[]; readonly outcome: AgentOutcome } {
  const sayings = text.split('\n').flatMap((line) => stream.line(line));
  return { sayings, outcome: stream.outcome() };
}

const told = (sayings: readonly AgentSaying[]): readonly string[] =>
  sayings.flatMap((saying) => {
    if (saying.kind === 'text') return [saying.text];
    return saying.kind === 'tool' ? [`${saying.failed ? 'failed' : 'called'} ${saying.tool}: ${saying.detail}`] : [];
  });

const outputs = (sayings: readonly AgentSaying[]): readonly (readonly [string, string])[] =>
  sayings.flatMap((saying) => (saying.kind === 'tool-output' ? [[saying.tool, saying.text] as const] : []));

describe('the output of a tool', () => {
  it('comes with the name of the tool from Claude Code, as a text or as parts', () => {
    const calls = {
      type: 'assistant',
      message: {
        content: [
          { type: 'tool_use', id: 't1', name: 'Bash', input: {} },
          { type: 'tool_use', id: 't2', name: 'mcp__scales__weigh', input: {} },
        ],
      },
    };
    const parts = [
      { type: 'text', text: '7' },
      { type: 'image', source: {} },
      { type: 'text', text: 'kg' },
    ];
    const results = {
      type: 'user',
      message: {
        content: [
          { type: 'tool_result', tool_use_id: 't2', content: parts },
          { type: 'tool_result', tool_use_id: 't1', content: 'one\ntwo\n' },
          { type: 'tool_result', tool_use_id: 'other', content: 'lost' },
          { type: 'tool_result', tool_use_id: 't1', content: '' },
          { type: 'tool_result', tool_use_id: 't1' },
        ],
      },
    };
    const { sayings } = read(createClaudeStream(), `${JSON.stringify(calls)}\n${JSON.stringify(results)}`);
    expect(outputs(sayings)).toEqual([
      ['mcp__scales__weigh', '7\nkg'],
      ['Bash', 'one\ntwo\n'],
      ['', 'lost'],
    ]);
    expect(sayings.at(-1)?.kind).toBe('tool-ended');
  });

  it('is not repeated for a failure whose line has all of it', () => {
    const result = (content: string): string =>
      JSON.stringify({ type: 'user', message: { content: [{ type: 'tool_result', is_error: true, content }] } });
    expect(outputs(read(createClaudeStream(), result('denied\n')).sayings)).toEqual([]);
    expect(outputs(read(createClaudeStream(), result('one\ntwo')).sayings)).toEqual([['', 'one\ntwo']]);
  });

  it('comes from commands and MCP servers of Codex', () => {
    const content = [{ type: 'text', text: '7 kg' }];
    const items = [
      { type: 'command_execution', command: 'ls', aggregated_output: 'a\nb\n', exit_code: 0, status: 'completed' },
      { type: 'command_execution', command: 'true', aggregated_output: '', exit_code: 0, status: 'completed' },
      { type: 'mcp_tool_call', server: 's', tool: 'weigh', arguments: {}, result: { content }, status: 'completed' },
      { type: 'mcp_tool_call', server: 's', tool: 'weigh', arguments: {}, error: { message: 'no' }, status: 'failed' },
      { type: 'file_change', changes: [{ path: 'a' }], status: 'completed' },
    ];
    const lines = items.map((item) => JSON.stringify({ type: 'item.completed', item }));
    expect(outputs(read(createCodexStream(), lines.join('\n')).sayings)).toEqual([
      ['command', 'a\nb\n'],
      ['s.weigh', '7 kg'],
      ['s.weigh', 'no'],
    ]);
  });
});

describe('the stream of claude', () => {
  it('tells texts and tools, and counts a message once that comes in several lines', () => {
    const { sayings, outcome } = read(createClaudeStream(), recording('claude-tools'));
    expect(told(sayings)).toEqual([
      'I write the file.',
      'called Bash: echo grüße > hello.txt',
      'called Bash: cat missing.txt',
      'failed : Exit code 1\ncat: missing.txt: No such file or directory',
      'It is written.',
    ]);
    const usages = sayings.flatMap((saying) => (saying.kind === 'usage' ? [saying.usage] : []));
    expect(usages.map(({ inputTokens, turns }) => [inputTokens, turns])).toEqual([
      [1400, 1],
      [2800, 2],
      [4200, 3],
      [4200, 3],
    ]);
    expect(outcome).toEqual({
      sessionId: '00000000-0000-4000-8000-000000000001',
      model: 'claude-opus-5-5',
      hasEnded: true,
      text: 'It is written.',
      failure: null,
      usage: { inputTokens: 4200, outputTokens: 60, cachedInputTokens: 1200, turns: 3, costUsd: 0.01344 },
      isUsageFinal: true,
    });
  });

  it('counts a message that comes in several lines by its last figures, also if it is cut off', () => {
    const message = (id: string, output: number, parent: string | null = null): string => {
      const usage = { input_tokens: 1_000, output_tokens: output, cache_read_input_tokens: 100 };
      return JSON.stringify({ type: 'assistant', parent_tool_use_id: parent, message: { id, content: [], usage } });
    };
    // The lines of a subagent come between.
    const lines = [message('m1', 1), message('m2', 7, 't1'), message('m1', 4_321), message('m1', 4_321)];
    const { sayings, outcome } = read(createClaudeStream(), lines.join('\n'));
    expect(outcome.usage).toMatchObject({ inputTokens: 2_200, outputTokens: 4_328, cachedInputTokens: 200, turns: 2 });
    expect(outcome.isUsageFinal).toBe(false);
    const told = sayings.flatMap((saying) => (saying.kind === 'usage' ? [saying.usage.outputTokens] : []));
    expect(told).toEqual([1, 8, 4_328]);
  });

  it('`is_error` decides, whatever the subtype says', () => {
    expect(recording('claude-refused')).toContain('"subtype":"success"');
    const { outcome } = read(createClaudeStream(), recording('claude-refused'));
    expect(outcome.failure).toEqual({ code: 'agent/api-error', message: 'API Error: 400 the model is not known' });
  });

  it('a refused login is reported at its first request; the agent repeats other failed requests', () => {
    const retry = (attempt: number, status: number | null): unknown =>
      read(
        createClaudeStream(),
        JSON.stringify({
          type: 'system',
          subtype: 'api_retry',
          attempt,
          max_retries: 10,
          error_status: status,
          error: 'authentication_failed',
        }),
      ).sayings;
    expect([retry(1, 403), retry(9, 529), retry(9, null)]).toEqual([[], [], []]);
    expect(retry(1, 401)).toEqual([
      {
        kind: 'login-refused',
        words: "the model's server refused its key or login (401 authentication_failed)",
      },
    ]);
  });

  it('a budget that is spent has its own code', () => {
    const ended = (subtype: string): unknown =>
      read(createClaudeStream(), `{"type":"result","subtype":"${subtype}","is_error":true,"num_turns":3}`).outcome
        .failure?.code;
    expect(ended('error_max_turns')).toBe('agent/budget-turns');
    expect(ended('error_max_budget_usd')).toBe('agent/budget-cost');
    expect(ended('error_during_execution')).toBe('agent/failed');
    expect(ended('toString')).toBe('agent/failed');
  });

  it('a result without `is_error` is no success', () => {
    expect(
      read(createClaudeStream(), '{"type":"result","subtype":"success","result":"x"}').outcome.failure,
    ).not.toBeNull();
  });

  it('without its end it has not ended, wherever it is cut', () => {
    const text = recording('claude-tools');
    const last = text.trimEnd().lastIndexOf('\n');
    for (const length of [0, 1, 200, last, text.trimEnd().length - 1])
      expect(read(createClaudeStream(), text.slice(0, length)).outcome.hasEnded).toBe(false);
  });

  it('nothing behind the result counts', () => {
    const more = `${recording('claude-refused')}{"type":"result","subtype":"success","is_error":false,"result":"ok"}\n`;
    expect(read(createClaudeStream(), more).outcome.failure?.code).toBe('agent/api-error');
  });

  it('costs nothing where its prices are of another provider', () => {
    const { outcome } = read(createClaudeStream({ cost: 'none' }), recording('claude-tools'));
    expect(outcome.usage.costUsd).toBe(0);
  });

  it('knows no cost where the command line made the price up, whatever dollars it prints', () => {
    expect(recording('claude-unpriced')).toMatch(/"total_cost_usd":0\.\d+/);
    const { sayings, outcome } = read(createClaudeStream(), recording('claude-unpriced'));
    expect(outcome).toMatchObject({ text: 'hi', failure: null, unpricedModels: ['my-finetune-7'] });
    expect(outcome.usage).toMatchObject({ inputTokens: 1400, outputTokens: 20, costUsd: null });
    const costs = sayings.flatMap((saying) => (saying.kind === 'usage' ? [saying.usage.costUsd] : []));
    expect(costs).toEqual([null, null]);
    // Free is free, and of another server's prices nothing was to be known.
    for (const [cost, costUsd] of [
      ['none', 0],
      ['unknown', null],
    ] as const) {
      const other = read(createClaudeStream({ cost }), recording('claude-unpriced')).outcome;
      expect([other.usage.costUsd, other.unpricedModels]).toEqual([costUsd, undefined]);
    }
    expect(read(createClaudeStream({ cost: 'unknown' }), recording('claude-tools')).outcome.usage.costUsd).toBeNull();
  });

  it('one model without a price is enough, and nothing that a stream may say of it breaks it', () => {
    const costOf = (modelUsage: unknown, subtype = 'success'): AgentOutcome => {
      const result = { type: 'result', subtype, is_error: subtype !== 'success', total_cost_usd: 0.5, modelUsage };
      return read(createClaudeStream(), JSON.stringify(result)).outcome;
    };
    const of = (...bases: readonly unknown[]): AgentOutcome =>
      costOf(Object.fromEntries(bases.map((costBasis, index) => [`m${index}`, { costBasis }])));
    for (const known of [undefined, null, 7, [], {}, { m: null }, { m: 7 }, { m: {} }])
      expect(costOf(known).usage.costUsd).toBe(0.5);
    expect(of('list', 'managed').usage.costUsd).toBe(0.5);
    for (const basis of ['unknown', 'LIST', '', null, 7, {}, ['list']]) {
      expect(of('list', basis).usage.costUsd).toBeNull();
      expect(of('list', basis).unpricedModels).toEqual(['m1']);
    }
    expect(of(...Array<unknown>(100).fill('unknown')).unpricedModels).toHaveLength(4);
    const over = costOf({ 'my-finetune-7': { costBasis: 'unknown' } }, 'error_max_budget_usd').failure;
    expect(over?.code).toBe('agent/budget-unknown');
    expect(over?.message).toContain('claude has no price for the model "my-finetune-7"; write `price: {');
    expect(costOf({ m: { costBasis: 'list' } }, 'error_max_budget_usd').failure?.code).toBe('agent/budget-cost');
  });

  it('counts a message once also where lines of others come between its own, as of subagents side by side', () => {
    const said = (id: string, type: string): string =>
      JSON.stringify({
        type: 'assistant',
        parent_tool_use_id: `toolu_${id}`,
        message: { id, content: [{ type, text: 'x', name: 'Bash' }], usage: { input_tokens: 10, output_tokens: 1 } },
      });
    const lines = ['text', 'tool_use'].flatMap((type) => ['a', 'b', 'c'].map((id) => said(id, type)));
    const { sayings, outcome } = read(createClaudeStream(), lines.join('\n'));
    expect(outcome.usage).toMatchObject({ inputTokens: 30, outputTokens: 3, turns: 3 });
    expect(sayings.filter(({ kind }) => kind === 'usage')).toHaveLength(3);
    // Ids that a guest makes up do not use unlimited memory, and each one counts as a turn.
    const forged = Array.from({ length: 5_000 }, (_, index) => said(`${index}${'x'.repeat(1_000)}`, 'text'));
    expect(read(createClaudeStream(), forged.join('\n')).outcome.usage.turns).toBe(5_000);
  });

  it('the cost of a resumed session counts only its own calls, though the total includes earlier commands', () => {
    const costOf = (own: unknown): number | null => {
      const total = { type: 'result', subtype: 'success', is_error: false, total_cost_usd: 0.5 };
      const text = JSON.stringify({ ...total, model_usage_since_last_result: own });
      return read(createClaudeStream(), text).outcome.usage.costUsd;
    };
    expect(costOf({ a: { costUSD: 0.125 }, b: { costUSD: 0.25 } })).toBe(0.375);
    // A version without this member, and forged values, fall back to the total.
    for (const none of [undefined, null, 7, [], {}, { a: null }, { a: { costUSD: -1 } }, { a: { costUSD: '1' } }])
      expect(costOf(none)).toBe(0.5);
  });

  it('the value of a schema is its text', () => {
    const { sayings, outcome } = read(createClaudeStream(), recording('claude-schema'));
    expect(told(sayings)).toEqual(['called StructuredOutput: {"ok":true}']);
    expect(outcome).toMatchObject({ text: '{"ok":true}', failure: null, hasEnded: true });
  });
});

describe('the stream of codex', () => {
  it('tells messages and commands; a warning is no message', () => {
    const { sayings, outcome } = read(createCodexStream(), recording('codex-tools'));
    expect(recording('codex-tools')).toContain('"type":"error"');
    expect(told(sayings)).toEqual([
      'I write the file.',
      "called command: /bin/bash -lc 'echo grüße > hello.txt'",
      "failed command: /bin/bash -lc 'cat missing.txt'",
      'It is written.',
    ]);
    expect(outcome).toEqual({
      sessionId: '00000000-0000-4000-8000-000000000001',
      model: null,
      hasEnded: true,
      text: 'It is written.',
      failure: null,
      usage: { inputTokens: 3000, outputTokens: 60, cachedInputTokens: 1200, turns: 1, costUsd: null },
      isUsageFinal: true,
    });
  });

  it('tells the paths of changes, and the servers of tools', () => {
    const items = [
      {
        type: 'file_change',
        changes: [{ path: '/workspace/a.txt' }, { path: '/workspace/b.txt' }],
        status: 'completed',
      },
      { type: 'mcp_tool_call', server: 'market', tool: 'price', arguments: { of: 'tea' }, status: 'failed' },
    ];
    const lines = items.map((item) => JSON.stringify({ type: 'item.completed', item }));
    expect(told(read(createCodexStream(), lines.join('\n')).sayings)).toEqual([
      'called file_change: /workspace/a.txt /workspace/b.txt',
      'failed market.price: {"of":"tea"}',
    ]);
  });

  it('the value of a schema is its last message', () => {
    expect(read(createCodexStream(), recording('codex-schema')).outcome).toMatchObject({
      text: '{"ok":true}',
      failure: null,
      hasEnded: true,
    });
  });

  it('a refused key is reported at its first request; other errors are warnings', () => {
    const error = (message: string): readonly AgentSaying[] =>
      read(createCodexStream(), JSON.stringify({ type: 'error', message })).sayings;
    const words = 'Reconnecting... 1/5 (unexpected status 401 Unauthorized: the key is not known)';
    expect(error(words)).toEqual([
      { kind: 'login-refused', words: `the model's server refused its key or login (${words})` },
    ]);
    expect(error('Reconnecting... 1/5 (unexpected status 529)')).toEqual([]);
    expect(error('port 401')).toEqual([]);
  });

  it('a turn that failed tells no usage, so that what was used is not known', () => {
    const failed = recording('codex-refused');
    expect(read(createCodexStream(), failed).outcome).toMatchObject({ hasEnded: true, isUsageFinal: false });
    const began = recording('codex-tools');
    const cut = began.slice(0, began.trimEnd().lastIndexOf('\n'));
    expect(read(createCodexStream(), cut).outcome).toMatchObject({ hasEnded: false, isUsageFinal: false });
  });

  it('an error is a warning, and a turn that failed is a failure, in the words of the API', () => {
    const text = recording('codex-refused');
    const { outcome } = read(createCodexStream(), text);
    expect(outcome.failure).toEqual({ code: 'agent/api-error', message: 'the model is not known' });
    const cut = read(createCodexStream(), text.slice(0, text.trimEnd().lastIndexOf('\n')));
    expect(cut.outcome).toMatchObject({ failure: null, hasEnded: false });
    for (const [message, words] of [
      ['unexpected status 401 Unauthorized', 'unexpected status 401 Unauthorized'],
      ['{"error":{"message":7}}', '{"error":{"message":7}}'],
      ['{"error":null}', '{"error":null}'],
    ]) {
      const failed = JSON.stringify({ type: 'turn.failed', error: { message } });
      expect(read(createCodexStream(), failed).outcome.failure?.message).toBe(words);
    }
  });

  it('without its end it has not ended, wherever it is cut', () => {
    const text = recording('codex-tools');
    const last = text.trimEnd().lastIndexOf('\n');
    for (const length of [0, 1, 200, last, text.trimEnd().length - 1])
      expect(read(createCodexStream(), text.slice(0, length)).outcome.hasEnded).toBe(false);
  });
});

describe('the end of a call', () => {
  const endOf = (stream: AgentStream, line: object): Extract<AgentSaying, { readonly kind: 'tool-ended' }> =>
    stream.line(JSON.stringify(line)).find((saying) => saying.kind === 'tool-ended')!;

  it('a tool call has ended in a session of claude once its result is in the file', () => {
    const content = [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'x' }];
    const { isIn } = endOf(createClaudeStream(), { type: 'user', message: { content } });
    const call = JSON.stringify({ message: { content: [{ type: 'tool_use', id: 'toolu_1' }] } });
    expect(isIn!(Buffer.from(call))).toBe(false);
    expect(isIn!(Buffer.from(`${call}\n${JSON.stringify({ message: { content } })}`))).toBe(true);
  });

  it('a tool call has ended in a session of codex once each call has its output', () => {
    const item = { type: 'command_execution', command: 'x', exit_code: 0 };
    const { isIn } = endOf(createCodexStream(), { type: 'item.completed', item });
    const lineOf = (type: string): string => JSON.stringify({ type: 'response_item', payload: { type, call_id: 'c' } });
    const said = (...types: readonly string[]): boolean => isIn!(Buffer.from(types.map(lineOf).join('\n')));
    expect(said('function_call')).toBe(false);
    expect(said('function_call', 'function_call_output')).toBe(true);
    expect(said('function_call', 'function_call_output', 'custom_tool_call')).toBe(false);
    expect(said('local_shell_call', 'function_call_output', 'custom_tool_call', 'custom_tool_call_output')).toBe(true);
  });
});

describe('hostile lines', () => {
  const HOSTILE = [
    'null',
    '[]',
    '"x"',
    '{',
    '{"type":"assistant"}',
    '{"type":"assistant","message":{"content":{"0":1},"usage":{"input_tokens":-1,"output_tokens":1e400}}}',
    '{"type":"assistant","message":{"content":[null,{"type":"tool_use","name":7},{"type":"text","text":[]}]}}',
    '{"type":"item.completed","item":{"type":"agent_message","text":{}}}',
    '{"type":"item.completed","item":{"type":"__proto__"}}',
    '{"type":"turn.completed","usage":"much"}',
    `{"type":"assistant","message":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
  ];

  it('say nothing, or little, and break nothing', () => {
    for (const make of [createClaudeStream, createCodexStream]) {
      const stream = make();
      for (const line of HOSTILE) stream.line(line);
      const { usage } = stream.outcome();
      for (const figure of [usage.inputTokens, usage.outputTokens, usage.cachedInputTokens])
        expect(Number.isSafeInteger(figure) && figure >= 0).toBe(true);
    }
  });
});

describe('the reader of lines', () => {
  const bytes = new TextEncoder().encode('grüße\n\n{"a":"日本"}\nrest');

  it('gives the same lines, however the bytes are cut', () => {
    const whole = [
      { offset: 0, text: 'grüße' },
      { offset: 8, text: '' },
      { offset: 9, text: '{"a":"日本"}' },
      { offset: 24, text: 'rest' },
    ];
    for (let size = 1; size <= bytes.length; size += 1) {
      const reader = createLineReader(1_000);
      const lines = [];
      for (let at = 0; at < bytes.length; at += size) lines.push(...reader.push(bytes.subarray(at, at + size)));
      expect([...lines, ...reader.end()]).toEqual(whole);
    }
  });

  it('the reader skips a line that is too long and continues after it', () => {
    const reader = createLineReader(4);
    const lines = [
      ...reader.push(new TextEncoder().encode('1234\n123')),
      ...reader.push(new TextEncoder().encode('45\nab\n')),
    ];
    expect(lines).toEqual([
      { offset: 0, text: '1234' },
      { offset: 5, text: null },
      { offset: 11, text: 'ab' },
    ]);
    expect(reader.end()).toEqual([]);
  });
});
