/** Agents whose process does not end after its final result. VMs are mocks. */
import { Buffer } from 'node:buffer';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { expect, test } from 'vitest';
import type { AgentWork } from '../../domain/plan/plan.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { createMockBackend, type MockBackend } from '../../sandbox/mock/backend.ts';
import type { MockIo } from '../../sandbox/mock/programs.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { mockWorkerDeps, plainRequest, plainStage } from '../../test/rig/runs/mock-worker.ts';
import type { ActivityDeps } from '../deps.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { StageRequest, VmStage } from '../calls/requests.ts';
import { runStage } from '../attempt/run-stage.ts';

const RUN = 'run-1';
const SESSION = '01a20e4f-499c-73c1-8912-0b6c6e66e01b';
const SCHEMA = { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean' } } } as const;
type Line = (value: object) => Promise<void>;

const hang = async ({ killed }: MockIo, ms = 60_000): Promise<number> => await sleep(ms, 0, { signal: killed });
const answer = {
  claude: async (line: Line, text: string): Promise<void> => {
    const usage = { input_tokens: 10, output_tokens: 5 };
    await line({
      type: 'result',
      subtype: 'success',
      is_error: false,
      num_turns: 1,
      session_id: 's',
      result: text,
      usage,
    });
  },
  codex: async (line: Line, text: string): Promise<void> => {
    await line({ type: 'thread.started', thread_id: 's' });
    await line({ type: 'item.completed', item: { type: 'agent_message', text } });
    await line({ type: 'turn.completed', usage: { input_tokens: 10, output_tokens: 5 } });
  },
};

/** A host of mock VMs. Each test has its own, because the tests wait at the same time. */
class Host implements AsyncDisposable {
  readonly #stateDir = mkdtempSync(join(tmpdir(), 'voidbox-hang-'));
  readonly #backend: MockBackend;
  calls = 0;
  /** Lines of the file that its command line writes. */
  sessionFile: readonly object[] = [];
  /** The program of the agent. @returns its exit code */
  agent: (line: Line, io: MockIo, call: number) => Promise<number> = () => Promise.reject(new Error('no agent'));
  stores!: Stores;

  private constructor() {
    const program = async (io: MockIo): Promise<number> => {
      this.calls += 1;
      return await this.agent(async (value) => await io.write('stdout', `${JSON.stringify(value)}\n`), io, this.calls);
    };
    const printSession = async ({ args, write }: MockIo): Promise<number> => {
      expect(args.at(-1)).toBe(SESSION);
      for (const line of this.sessionFile) await write('stdout', `${JSON.stringify(line)}\n`);
      return this.sessionFile.length === 0 ? 3 : 0;
    };
    const folder = '/usr/lib/voidbox/mock-agents';
    const programs = { [`${folder}/claude`]: program, [`${folder}/codex`]: program, '/bin/sh': printSession };
    this.#backend = createMockBackend({ programs });
  }

  static async open(): Promise<Host> {
    const host = new Host();
    host.stores = await openStores({ stateDir: host.#stateDir });
    return host;
  }

  async resultOf(what: StageRequest, change: Partial<ActivityDeps> = {}): Promise<StageResult> {
    const deps = mockWorkerDeps({ stateDir: this.#stateDir, stores: this.stores, backend: this.#backend }, change);
    const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
    return await environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(runStage, deps, what);
  }

  async textOf({ output }: StageResult): Promise<string> {
    const parts: Uint8Array[] = [];
    for await (const part of this.stores.artifacts.open(output!)) parts.push(part);
    return Buffer.concat(parts).toString();
  }

  async warnings(run = RUN): Promise<readonly string[]> {
    const all: string[] = [];
    for await (const { body } of this.stores.reader.read(run, 0, { output: false }))
      if (body.type === 'notice' && body.level === 'warning') all.push(body.message);
    return all;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const runId of ['run-2', RUN])
      await this.#backend.release({ runId, scope: 'think', instance: [], generation: 0 });
    await this.stores.close();
    rmSync(this.#stateDir, { recursive: true, force: true });
  }
}

interface Change {
  readonly stage?: Partial<VmStage>;
  readonly work?: Partial<AgentWork>;
}

function request(provider: 'claude' | 'codex', { stage, work }: Change = {}): StageRequest {
  const llm = { provider, model: null, baseUrl: null, apiKeyEnv: null, credentialProxy: false } as const;
  const base = { kind: 'agent', mode: 'task', prompt: 'Do it.', llm, skills: [], env: [], messaging: false } as const;
  // Short, so that most tests do not wait for the whole limit: an agent is ended before its stage's time is over.
  const change = { timeoutMs: 3_000, work: { ...base, played: true, ...work } as AgentWork, ...stage };
  return plainRequest(RUN, plainStage('think', 'think', ['true'], change));
}

test.concurrent('an agent that hangs after its final result is ended after ten seconds, and its answer counts; a service is not', async () => {
  await using host = await Host.open();
  host.agent = async (line, io) => {
    const isService = io.args[0] === 'exec';
    await answer[isService ? 'codex' : 'claude'](line, 'the answer');
    return await hang(io, isService ? 11_000 : 60_000);
  };
  const startedAtMs = Date.now();
  const timed = async (): Promise<StageResult> => {
    const ended = await host.resultOf(request('claude', { stage: { timeoutMs: 60_000 } }));
    const tookMs = Date.now() - startedAtMs;
    expect(tookMs).toBeGreaterThanOrEqual(10_000);
    expect(tookMs).toBeLessThan(20_000);
    return ended;
  };
  const { stage } = request('codex', { work: { mode: 'service' }, stage: { timeoutMs: 2 ** 40 } });
  const [result, served] = await Promise.all([timed(), host.resultOf(plainRequest('run-2', stage))]);
  expect(result).toMatchObject({ outcome: 'succeeded', failure: null, usage: { inputTokens: 10, outputTokens: 5 } });
  expect(await host.textOf(result)).toBe('the answer');
  expect(await host.warnings()).toEqual([
    'the agent of stage think did not end within 10 s of its final result, so Voidbox ended its process; the result counts',
  ]);
  expect(served).toMatchObject({ outcome: 'succeeded' });
  expect(await host.warnings('run-2')).toEqual([]);
}, 300_000);

test.concurrent.each(['claude', 'codex'] as const)(
  'an answer of %s that comes shortly before the time limit counts',
  async (cli) => {
    await using host = await Host.open();
    host.agent = async (line, io) => {
      await answer[cli](line, 'the answer');
      return await hang(io);
    };
    const result = await host.resultOf(request(cli));
    expect(result).toMatchObject({ outcome: 'succeeded', failure: null });
    expect(await host.textOf(result)).toBe('the answer');
    expect(await host.warnings()).toHaveLength(1);
  },
);

test.concurrent('an answer beyond the budget counts, even if its process hangs', async () => {
  await using host = await Host.open();
  host.agent = async (line, io) => {
    await answer.claude(line, 'the answer');
    return await hang(io);
  };
  const result = await host.resultOf(request('claude', { work: { budget: { maxTurns: 1 } } }));
  expect(result).toMatchObject({ outcome: 'succeeded' });
});

test.concurrent('an agent that ends soon after its final result has no notice', async () => {
  await using host = await Host.open();
  host.agent = async (line, io) => {
    await answer.claude(line, 'the answer');
    return await hang(io, 300);
  };
  expect(await host.resultOf(request('claude'))).toMatchObject({ outcome: 'succeeded' });
  expect(await host.warnings()).toEqual([]);
});

test.concurrent('Codex continues if a turn follows its turn', async () => {
  await using host = await Host.open();
  host.agent = async (line, io) => {
    await answer.codex(line, 'first');
    await line({ type: 'turn.started' });
    await hang(io, 2_500);
    await answer.codex(line, 'second');
    return 0;
  };
  const result = await host.resultOf(request('codex', { stage: { timeoutMs: 20_000 } }));
  expect(result).toMatchObject({ outcome: 'succeeded' });
  expect(await host.textOf(result)).toBe('second');
  expect(await host.warnings()).toEqual([]);
});

test.concurrent('a failed call of the API is the outcome of an agent that hangs after it', async () => {
  await using host = await Host.open();
  host.agent = async (line, io) => {
    await line({ type: 'turn.failed', error: { message: 'the server is away' } });
    return await hang(io);
  };
  expect(await host.resultOf(request('codex'))).toMatchObject({
    outcome: 'failed',
    failure: { code: 'agent/api-error' },
  });
});

test.concurrent('an agent that hangs without a final result fails at its time limit, and its usage is marked as a minimum', async () => {
  await using host = await Host.open();
  host.agent = async (line, io) => {
    const message = (output: number): object => ({
      id: 'm',
      content: [],
      usage: { input_tokens: 9, output_tokens: output },
    });
    await line({ type: 'assistant', message: message(1) });
    await line({ type: 'assistant', message: message(4_321) });
    return await hang(io);
  };
  const { outcome, failure, usage } = await host.resultOf(request('claude'));
  expect([outcome, failure?.code]).toEqual(['failed', 'stage/timeout']);
  expect(usage).toMatchObject({ inputTokens: 9, outputTokens: 4_321, partlyCounted: 1 });
  expect(await host.warnings()).toEqual([]);
});

test.concurrent('the session file adds the usage of an interrupted agent that its stream did not report', async () => {
  const usage = (output: number): object => ({ input_tokens: 9, output_tokens: output });
  await using host = await Host.open();
  host.agent = async (line, io) => {
    await line({ type: 'system', subtype: 'init', session_id: SESSION });
    await line({ type: 'assistant', message: { id: 'm', content: [], usage: usage(1) } });
    return await hang(io);
  };
  host.sessionFile = [
    { type: 'assistant', message: { id: 'm', usage: usage(4_321) } },
    { type: 'assistant', message: { id: 'n', usage: usage(5) } },
  ];
  const { failure, usage: used } = await host.resultOf(request('claude'));
  expect(failure?.code).toBe('stage/timeout');
  // Neither of them contains the interrupted call.
  expect(used).toMatchObject({ inputTokens: 18, outputTokens: 4_326, turns: 2, partlyCounted: 1 });
});

test.concurrent('an agent that hung is asked again if its answer does not fit', async () => {
  await using host = await Host.open();
  host.agent = async (line, io, call) => {
    await answer.claude(line, call === 1 ? 'no JSON' : '{"ok":true}');
    return call === 1 ? await hang(io) : 0;
  };
  const result = await host.resultOf(request('claude', { stage: { outputSchema: SCHEMA, timeoutMs: 5_000 } }));
  expect(result).toMatchObject({ outcome: 'succeeded' });
  expect(host.calls).toBe(2);
});

test.concurrent.each([
  ['before it ended the agent', 'notice'],
  ['after it ended the agent', 'stage-finished'],
])('the answer counts for the worker that takes over after a worker died %s', async (_when, dies) => {
  await using host = await Host.open();
  host.agent = async (line, io) => {
    await answer.claude(line, 'the answer');
    return await hang(io);
  };
  const dying: EventLog = {
    ...host.stores.events,
    append: async (runId, events, writer) => {
      if (events.some(({ body }) => body.type === dies)) throw new Error('the worker dies here');
      return await host.stores.events.append(runId, events, writer);
    },
  };
  await expect(host.resultOf(request('claude'), { events: dying })).rejects.toThrow('the worker dies here');
  expect(await host.warnings()).toHaveLength(dies === 'stage-finished' ? 1 : 0);
  const result = await host.resultOf(request('claude'));
  expect(result).toMatchObject({ outcome: 'succeeded' });
  expect(await host.textOf(result)).toBe('the answer');
  expect(host.calls).toBe(1);
  expect(await host.warnings()).toHaveLength(1);
});
