/** The budget of a run, as attempts of its agents count it from the run's log. VMs are mocks. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ModelUse } from '../../domain/agent/budget.ts';
import type { BudgetPlan } from '../../domain/plan/plan.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { createMockBackend, type MockBackend } from '../../sandbox/mock/backend.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { mockWorkerDeps, plainRequest, plainStage } from '../../test/rig/runs/mock-worker.ts';
import type { ActivityDeps } from '../deps.ts';
import type { StageRequest } from '../calls/requests.ts';
import { runStage } from '../attempt/run-stage.ts';

const RUN = 'run-1';
/** The tokens of one call of the mocked agent. */
const CALL_TOKENS = 100;

let stateDir: string;
let backend: MockBackend;
let stores: Stores;
/** The number of calls by stage. */
let calls: Map<string, number>;
/** The lines that the agent prints instead of working; null: it works. */
let printed: readonly string[] | null;
let exitCode: number;
/** The tokens of the whole turn that the end of the stream reports. */
let lastTokens: number;
/** For each attempt, the number of its calls that are stored, and the number that its ledger has read from the log. */
let stored: Map<string, number>;
let read: Map<string, number>;
/** Waits before the agent of a stage makes its next call. @returns false: it answers instead */
let mayCall: (stage: string, call: number, killed: AbortSignal) => Promise<boolean>;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-run-budget-'));
  calls = new Map();
  stored = new Map();
  read = new Map();
  lastTokens = 0;
  printed = null;
  exitCode = 0;
  mayCall = (_stage, call) => Promise.resolve(call <= 3);
  backend = createMockBackend({
    programs: {
      '/usr/lib/voidbox/mock-agents/claude': async ({ env, killed, write }) => {
        const stage = env['STAGE']!;
        const line = (value: object): Promise<void> => write('stdout', `${JSON.stringify(value)}\n`);
        if (printed !== null) {
          for (const text of printed) await write('stdout', `${text}\n`);
          return exitCode;
        }
        await line({ type: 'system', subtype: 'init', session_id: 's', model: 'm' });
        for (let call = 1; await mayCall(stage, call, killed); call += 1) {
          calls.set(stage, call);
          const usage = { input_tokens: CALL_TOKENS - 10, output_tokens: 10 };
          const content = [{ type: 'text', text: `call ${call}` }];
          await line({ type: 'assistant', session_id: 's', message: { id: `${stage}-${call}`, content, usage } });
          await untilJudged(stage, call, killed);
        }
        const usage = { input_tokens: lastTokens, output_tokens: 0 };
        await line({ type: 'result', subtype: 'success', is_error: false, result: 'done', session_id: 's', usage });
        return 0;
      },
    },
  });
  stores = await openStores({ stateDir });
});

afterEach(async () => {
  await stores.close();
  rmSync(stateDir, { recursive: true, force: true });
});

function request(stage: string, runBudget: BudgetPlan, execKey = `${stage}/0/1`): StageRequest {
  const price = { inputUsd: 1_000, outputUsd: 1_000 };
  const llm = {
    provider: 'claude',
    model: null,
    baseUrl: null,
    apiKeyEnv: null,
    credentialProxy: false,
    price,
  } as const;
  const work = {
    kind: 'agent',
    mode: 'task',
    prompt: 'Work.',
    llm,
    skills: [],
    env: [{ name: 'STAGE', value: { kind: 'literal', text: stage } }],
    messaging: false,
    played: true,
  } as const;
  return plainRequest(RUN, plainStage(stage, stage, ['true'], { work }), { execKey, runBudget });
}

/**
 * Settles after the worker has compared a call with the budget, and so has killed an agent that is over it.
 * Without this wait an agent makes more calls while the worker reads.
 */
async function untilJudged(stage: string, call: number, killed: AbortSignal): Promise<void> {
  const key = `${stage}/0/1`;
  while ((stored.get(key) ?? 0) < call || (read.get(key) ?? 0) < call) await sleep(5, undefined, { signal: killed });
  // The comparison itself does not wait for a timer.
  await sleep(5, undefined, { signal: killed });
}

/** Stores of one attempt that count its calls. */
function countingStores(execKey: string): Stores {
  const count = (calls: Map<string, number>, { body }: Pick<NewRunEvent, 'body'>): void => {
    if (body.type === 'agent-usage' && body.execKey === execKey) calls.set(execKey, body.turns);
  };
  const { events, reader } = stores;
  return {
    ...stores,
    events: {
      ...events,
      append: async (runId, added, writer) => {
        const fresh = await events.append(runId, added, writer);
        for (const event of added) count(stored, event);
        return fresh;
      },
    },
    reader: {
      ...reader,
      follow: async function* (...args: Parameters<typeof reader.follow>) {
        for await (const event of reader.follow(...args)) {
          yield event;
          count(read, event);
        }
      },
    },
  };
}

function run(what: StageRequest, change: Partial<ActivityDeps> = {}): Promise<StageResult> {
  const deps = mockWorkerDeps({ stateDir, stores: countingStores(what.execKey), backend }, change);
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
  return environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(runStage, deps, what);
}

async function typesOf(): Promise<readonly string[]> {
  const types: string[] = [];
  for await (const { body } of stores.reader.read(RUN, 0, { output: false })) types.push(body.type);
  return types;
}

/** Appends the usage of another attempt of the run, on any host. */
async function told(execKey: string, used: Partial<ModelUse>, nth = 1): Promise<void> {
  const body = {
    type: 'agent-usage',
    stage: execKey.split('/')[0]!,
    execKey,
    inputTokens: 0,
    outputTokens: 0,
    cachedInputTokens: 0,
    turns: 0,
    costUsd: null,
    ...used,
  } as const;
  await stores.events.append(RUN, [{ id: EVENT_ID.agent(execKey, nth, 0), atMs: 1, body }]);
}

describe('an agent starts', () => {
  test('while something of each limit is left', async () => {
    await told('earlier/0/1', { inputTokens: 600, turns: 6 });
    const result = await run(request('ask', { maxTokens: 901, maxTurns: 9 }));
    expect(result).toMatchObject({ outcome: 'succeeded', usage: { turns: 3, inputTokens: 270, outputTokens: 30 } });
  });

  test.each([
    [{ maxTokens: 900 }, 'run/budget-tokens', 'agents of the run have used 900 tokens, of 900 in its budget'],
    [{ maxTurns: 9 }, 'run/budget-turns', 'agents of the run have made 9 calls of the model, of 9 in its budget'],
    [{ maxCostUsd: 0.5 }, 'run/budget-cost', 'agents of the run have cost $0.7500, of $0.5000 in its budget'],
  ] as const)(
    'not once %o is used up by attempts, retries and items, and without a VM',
    async (budget, code, words) => {
      // The latest report of an attempt replaces its earlier reports.
      await told('earlier/0/1', { inputTokens: 100, turns: 1, costUsd: 0.1 }, 1);
      await told('earlier/0/1', { inputTokens: 400, outputTokens: 100, turns: 5, costUsd: 0.5 }, 2);
      await told('earlier/0/2', { inputTokens: 200, turns: 3, costUsd: 0.25 });
      await told('list[4]/0/1', { outputTokens: 200, turns: 1 });
      const result = await run(request('ask', budget));
      expect(result).toMatchObject({
        outcome: 'failed',
        failure: { code, message: `the agent of stage ask did not start: ${words}` },
      });
      expect(calls.size).toBe(0);
      expect(await stores.events.find(RUN, EVENT_ID.attempt('ask/0/1', 'started'))).toBeNull();
    },
  );

  test('only if other agents left some budget while it waited for its VM', async () => {
    let asked = 0;
    const slow: MockBackend = {
      ...backend,
      launch: async (...args: Parameters<MockBackend['launch']>) => {
        asked += 1;
        await told('other/0/1', { inputTokens: 1_000 });
        return backend.launch(...args);
      },
    };
    const result = await run(request('ask', { maxTokens: 1_000 }), { backendFor: () => slow });
    expect(result).toMatchObject({ outcome: 'failed', failure: { code: 'run/budget-tokens' } });
    expect([asked, calls.size]).toEqual([1, 0]);
  });
});

describe('an agent that works', () => {
  test('is stopped at its call that crosses the limit, also when other agents used the rest', async () => {
    mayCall = async (_stage, call) => {
      if (call === 3) await told('other/0/1', { inputTokens: 750 });
      return call <= 10;
    };
    const result = await run(request('ask', { maxTokens: 1_000 }));
    expect(result).toMatchObject({
      outcome: 'failed',
      failure: {
        code: 'run/budget-tokens',
        message: 'the agent of stage ask was stopped: agents of the run have used 1050 tokens, of 1000 in its budget',
      },
      usage: { turns: 3 },
    });
    expect(calls.get('ask')).toBe(3);
  });

  test('succeeds if only its last report exceeds the limit', async () => {
    await told('other/0/1', { inputTokens: 750 });
    mayCall = () => Promise.resolve(false);
    lastTokens = 300;
    const result = await run(request('ask', { maxTokens: 1_000 }));
    expect(result).toMatchObject({ outcome: 'succeeded', usage: { inputTokens: 300 } });
    // The usage counts for agents that start later.
    expect(await run(request('next', { maxTokens: 1_000 }))).toMatchObject({ failure: { code: 'run/budget-tokens' } });
  });

  test('together with others exceeds the budget by at most one call each', async () => {
    const names = ['a', 'b', 'c'];
    mayCall = (_stage, call) => Promise.resolve(call <= 20);
    const results = await Promise.all(names.map((name) => run(request(name, { maxTurns: 9 }))));
    expect(results.map(({ failure }) => failure?.code)).toEqual(names.map(() => 'run/budget-turns'));
    const made = results.reduce((sum, { usage }) => sum + usage['turns']!, 0);
    expect(made).toBeGreaterThan(9);
    expect(made).toBeLessThanOrEqual(9 + names.length);
  });

  test('continues with a new worker, which counts earlier reports', async () => {
    let resume!: () => void;
    const gate = new Promise<void>((resolve) => (resume = resolve));
    mayCall = async (_stage, call) => {
      if (call === 3) await gate;
      return call <= 10;
    };
    const what = request('ask', { maxTokens: 1_000 });
    const first = run(what);
    first.catch(() => undefined);
    while ((calls.get('ask') ?? 0) < 2) await sleep(5);
    await told('other/0/1', { inputTokens: 1_000 });
    // The budget is used up, and the attempt has begun: a second driver of the attempt makes the first driver detach.
    const second = run(what);
    await expect.poll(typesOf).toContain('stage-reattached');
    resume();
    const result = await second;
    expect(result).toMatchObject({ outcome: 'failed', failure: { code: 'run/budget-tokens' } });
    // The first line that it reads of the agent's stream already exceeds the budget.
    expect(result.failure!.message).toContain('was stopped: agents of the run have used 1100 tokens');
    expect(calls.get('ask')).toBeLessThanOrEqual(3);
    await first.catch(() => undefined);
  });

  test('is stopped by either of both budgets that it exceeds', async () => {
    const what = request('ask', { maxTurns: 100 });
    const { work } = what.stage;
    if (work.kind !== 'agent') throw new Error('no agent');
    const both = { ...what, stage: { ...what.stage, work: { ...work, budget: { maxTurns: 1 } } } };
    expect(await run(both)).toMatchObject({ failure: { code: 'agent/budget-turns' } });
  });
});

describe('an agent that prints lines of its own', () => {
  const said = (id: string, usage: string): string =>
    `{"type":"assistant","session_id":"s","message":{"id":"${id}","content":[],"usage":${usage}}}`;
  const END = '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s","num_turns":1}';

  test('adds no usage with invalid numbers, and a repeated report counts once', async () => {
    const call = said('a', '{"input_tokens":70,"output_tokens":30}');
    const forged = ['-5', '1e400', '"9"', 'null', '0.5', '{}'].map((value, index) =>
      said(`f${index}`, `{"input_tokens":${value},"output_tokens":${value}}`),
    );
    printed = [call, call, ...forged, '{"type":"assistant","message":{"usage":NaN}}', call.slice(0, 40), END];
    const result = await run(request('ask', { maxTokens: 100 }));
    expect(result).toMatchObject({ outcome: 'succeeded', usage: { inputTokens: 70, outputTokens: 30 } });
  });

  test('cannot lower its recorded usage, neither of its stage nor of its run', async () => {
    const end = `{"type":"result","subtype":"success","is_error":false,"result":"x","session_id":"s","num_turns":1,"total_cost_usd":-1,"usage":{"input_tokens":1,"output_tokens":0}}`;
    printed = [said('a', '{"input_tokens":70,"output_tokens":30}'), end];
    expect(await run(request('ask', { maxTokens: 100 }))).toMatchObject({
      usage: { inputTokens: 70, outputTokens: 30 },
    });
    printed = null;
    expect(await run(request('next', { maxTokens: 100 }))).toMatchObject({ failure: { code: 'run/budget-tokens' } });
  });

  test('exceeds each budget with huge numbers, which the log accepts', async () => {
    const most = `{"input_tokens":${Number.MAX_SAFE_INTEGER},"output_tokens":${Number.MAX_SAFE_INTEGER}}`;
    printed = [said('a', most), said('b', most)];
    const result = await run(request('ask', { maxTokens: 1_000 }));
    expect(result).toMatchObject({
      failure: { code: 'run/budget-tokens' },
      usage: { inputTokens: Number.MAX_SAFE_INTEGER },
    });
    expect(await run(request('next', { maxTokens: 1_000 }))).toMatchObject({ failure: { code: 'run/budget-tokens' } });
  });

  test('counts with the usage that it reported before it was killed', async () => {
    printed = [said('a', '{"input_tokens":70,"output_tokens":20}')];
    exitCode = 137;
    expect(await run(request('ask', { maxTokens: 100 }))).toMatchObject({
      failure: { code: 'agent/truncated' },
      usage: { inputTokens: 70, outputTokens: 20 },
    });
    printed = [said('b', '{"input_tokens":10,"output_tokens":1}'), END];
    exitCode = 0;
    await run(request('next', { maxTokens: 100 }));
    const { failure } = await run(request('last', { maxTokens: 100 }));
    expect(failure?.message).toBe(
      'the agent of stage last did not start: agents of the run have used 101 tokens, of 100 in its budget',
    );
  });
});
