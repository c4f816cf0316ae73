import { describe, expect, test } from 'vitest';
import { type AgentUsage, NO_USAGE, STREAM_LIMITS } from '../../agents/stream.ts';
import { sumUse } from '../../domain/agent/budget.ts';
import { CommandMeter, readFollower } from './budget.ts';
import type { Exec } from '../ports/sandbox.ts';

describe('what a command used of its budget', () => {
  test('the larger of stream and session file counts, and the command is ended once', () => {
    let ended = 0;
    const meter = new CommandMeter({ llm: null }, { maxTokens: 1_000 }, () => (ended += 1));
    expect(meter.streamed({ ...NO_USAGE, inputTokens: 800, turns: 1 })).toMatchObject({ inputTokens: 800 });
    // A file that reports less hides nothing.
    expect(meter.followed({ ...NO_USAGE, inputTokens: 10, outputTokens: 150, turns: 2 })).toMatchObject({
      inputTokens: 800,
      outputTokens: 150,
      turns: 2,
    });
    expect([ended, meter.over]).toEqual([0, null]);
    meter.followed({ ...NO_USAGE, inputTokens: 10, outputTokens: 201 });
    meter.streamed({ ...NO_USAGE, inputTokens: 5_000 });
    expect([ended, meter.over]).toEqual([
      1,
      { code: 'agent/budget-tokens', words: 'used 1001 tokens; 1000 were left to it' },
    ]);
  });

  test('later reports of an agent never lower its usage, and huge numbers count as the largest number', () => {
    const meter = new CommandMeter({ llm: null }, {}, () => undefined);
    meter.followed({ ...NO_USAGE, inputTokens: 700, turns: 7 });
    meter.streamed({ ...NO_USAGE, outputTokens: 50 });
    expect(meter.followed(NO_USAGE)).toMatchObject({ inputTokens: 700, outputTokens: 50, turns: 7 });
    expect(meter.streamed(NO_USAGE)).toMatchObject({ outputTokens: 50 });
    const most = { ...NO_USAGE, inputTokens: Number.MAX_SAFE_INTEGER };
    expect(sumUse(meter.followed(most), most).inputTokens).toBe(Number.MAX_SAFE_INTEGER);
  });

  test('an agent whose last report of its turn exceeds the limit has time to end on its own', () => {
    const ends: boolean[] = [];
    const meter = (): CommandMeter =>
      new CommandMeter({ llm: null }, { maxTurns: 1 }, (_, answered) => void ends.push(answered));
    meter().streamed({ ...NO_USAGE, turns: 2 });
    meter().streamed({ ...NO_USAGE, turns: 2 }, true);
    expect(ends).toEqual([false, true]);
  });

  test('the price of the plan determines the cost if the agent reports no cost', () => {
    const llm = { provider: 'codex', model: null, baseUrl: null, apiKeyEnv: null, credentialProxy: false } as const;
    const priced = { ...llm, price: { inputUsd: 1_000, outputUsd: 0 } };
    let ended = 0;
    const meter = new CommandMeter({ llm: priced }, { maxCostUsd: 1 }, () => (ended += 1));
    expect(meter.followed({ ...NO_USAGE, inputTokens: 1_000 }).costUsd).toBeCloseTo(1);
    expect(ended).toBe(0);
    meter.followed({ ...NO_USAGE, inputTokens: 1_001 });
    expect(ended).toBe(1);
  });
});

describe('a session file that the agent itself fills', () => {
  const countOfTokens = (total: number, more = ''): string =>
    `{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":${total}${more}},"last_token_usage":{"input_tokens":1}}}}\n`;

  async function read(text: string) {
    const bytes = new TextEncoder().encode(text);
    const follower: Pick<Exec, 'output'> = {
      async *output() {
        for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536);
      },
    };
    const told: AgentUsage[] = [];
    let events = 0;
    const tell = async (usage: AgentUsage, _offset: number, hasEvent: boolean): Promise<void> => {
      told.push(usage);
      if (hasEvent) events += 1;
    };
    await readFollower(follower as Exec, 'codex', tell, new AbortController().signal);
    return { told, events };
  }

  test('counts line by line, and only a limited number of its lines become events', async () => {
    const lines = STREAM_LIMITS.events + 20_000;
    const { told, events } = await read(Array.from({ length: lines }, (_, total) => countOfTokens(total)).join(''));
    expect(told).toHaveLength(lines);
    expect(told.at(-1)).toMatchObject({ inputTokens: lines, turns: lines });
    expect(events).toBe(STREAM_LIMITS.events + 20);
  });

  test('counts nothing for a line that is nested too deep', async () => {
    const deep = `,"x":${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    const { told } = await read(countOfTokens(1, deep) + countOfTokens(2));
    expect(told).toHaveLength(1);
  });
});
