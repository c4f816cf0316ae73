/** Agents whose process does not end after its final result. VMs are mocks. */
import { Buffer } from 'node:buffer';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { AgentWork } from '../domain/plan/plan.ts';
import type { StageResult } from '../domain/run/stage-result.ts';
import { createMockBackend, type MockBackend } from '../sandbox/mock/backend.ts';
import type { MockIo } from '../sandbox/mock/programs.ts';
import { openStores, type Stores } from '../store/open-stores.ts';
import { mockWorkerDeps, plainRequest, plainStage } from '../test/rig/mock-worker.ts';
import type { ActivityDeps } from './deps.ts';
import type { EventLog } from './ports/event-log.ts';
import type { StageRequest, VmStage } from './requests.ts';
import { runStage } from './run-stage.ts';

const RUN = 'run-1';
const SESSION = '01a20e4f-499c-73c1-8912-0b6c6e66e01b';
const SCHEMA = { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean' } } } as const;
type Line = (value: object) => Promise<void>;

let stateDir: string;
let backend: MockBackend;
let stores: Stores;
let calls: number;
/** Lines of the file that its command line writes. */
let sessionFile: readonly object[];
/** The program of the agent. @returns its exit code */
let agent: (line: Line, io: MockIo, call: number) => Promise<number>;

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

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-hang-'));
  calls = 0;
  sessionFile = [];
  const program = async (io: MockIo): Promise<number> => {
    calls += 1;
    return await agent(async (value) => await io.write('stdout', `${JSON.stringify(value)}\n`), io, calls);
  };
  const printSession = async ({ args, write }: MockIo): Promise<number> => {
    expect(args.at(-1)).toBe(SESSION);
    for (const line of sessionFile) await write('stdout', `${JSON.stringify(line)}\n`);
    return sessionFile.length === 0 ? 3 : 0;
  };
  const folder = '/usr/lib/voidbox/mock-agents';
  const programs = { [`${folder}/claude`]: program, [`${folder}/codex`]: program, '/bin/sh': printSession };
  backend = createMockBackend({ programs });
  stores = await openStores({ stateDir });
});

afterEach(async () => {
  await backend.release({ runId: 'run-2', scope: 'think', instance: [], generation: 0 });
  await backend.release({ runId: RUN, scope: 'think', instance: [], generation: 0 });
  rmSync(stateDir, { recursive: true, force: true });
});

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

async function resultOf(what: StageRequest, change: Partial<ActivityDeps> = {}): Promise<StageResult> {
  const deps = mockWorkerDeps({ stateDir, stores, backend }, change);
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
  return await environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(runStage, deps, what);
}

async function textOf({ output }: StageResult): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of stores.artifacts.open(output!)) parts.push(part);
  return Buffer.concat(parts).toString();
}

async function warnings(run = RUN): Promise<readonly string[]> {
  const all: string[] = [];
  for await (const { body } of stores.reader.read(run, 0, { output: false }))
    if (body.type === 'notice' && body.level === 'warning') all.push(body.message);
  return all;
}

test('an agent that hangs after its final result is ended after ten seconds, and its answer counts; a service is not', async () => {
  agent = async (line, io) => {
    const isService = io.args[0] === 'exec';
    await answer[isService ? 'codex' : 'claude'](line, 'the answer');
    return await hang(io, isService ? 11_000 : 60_000);
  };
  const startedAtMs = Date.now();
  const timed = async (): Promise<StageResult> => {
    const ended = await resultOf(request('claude', { stage: { timeoutMs: 60_000 } }));
    const tookMs = Date.now() - startedAtMs;
    expect(tookMs).toBeGreaterThanOrEqual(10_000);
    expect(tookMs).toBeLessThan(20_000);
    return ended;
  };
  const { stage } = request('codex', { work: { mode: 'service' }, stage: { timeoutMs: 2 ** 40 } });
  const [result, served] = await Promise.all([timed(), resultOf(plainRequest('run-2', stage))]);
  expect(result).toMatchObject({ outcome: 'succeeded', failure: null, usage: { inputTokens: 10, outputTokens: 5 } });
  expect(await textOf(result)).toBe('the answer');
  expect(await warnings()).toEqual([
    'the agent of stage think did not end within 10 s of its final result, so Voidbox ended its process; the result counts',
  ]);
  expect(served).toMatchObject({ outcome: 'succeeded' });
  expect(await warnings('run-2')).toEqual([]);
}, 30_000);

test.each(['claude', 'codex'] as const)(
  'an answer of %s that comes shortly before the time limit counts',
  async (cli) => {
    agent = async (line, io) => {
      await answer[cli](line, 'the answer');
      return await hang(io);
    };
    const result = await resultOf(request(cli));
    expect(result).toMatchObject({ outcome: 'succeeded', failure: null });
    expect(await textOf(result)).toBe('the answer');
    expect(await warnings()).toHaveLength(1);
  },
);

test('an answer beyond the budget counts, though its process hangs', async () => {
  agent = async (line, io) => {
    await answer.claude(line, 'the answer');
    return await hang(io);
  };
  const result = await resultOf(request('claude', { work: { budget: { maxTurns: 1 } } }));
  expect(result).toMatchObject({ outcome: 'succeeded' });
});

test('an agent that ends soon after its final result has no notice', async () => {
  agent = async (line, io) => {
    await answer.claude(line, 'the answer');
    return await hang(io, 300);
  };
  expect(await resultOf(request('claude'))).toMatchObject({ outcome: 'succeeded' });
  expect(await warnings()).toEqual([]);
});

test('Codex works on if a turn follows its turn', async () => {
  agent = async (line, io) => {
    await answer.codex(line, 'first');
    await line({ type: 'turn.started' });
    await hang(io, 2_500);
    await answer.codex(line, 'second');
    return 0;
  };
  const result = await resultOf(request('codex', { stage: { timeoutMs: 20_000 } }));
  expect(result).toMatchObject({ outcome: 'succeeded' });
  expect(await textOf(result)).toBe('second');
  expect(await warnings()).toEqual([]);
});

test('a failed call of the API is the outcome of an agent that hangs after it', async () => {
  agent = async (line, io) => {
    await line({ type: 'turn.failed', error: { message: 'the server is away' } });
    return await hang(io);
  };
  expect(await resultOf(request('codex'))).toMatchObject({ outcome: 'failed', failure: { code: 'agent/api-error' } });
});

test('an agent that hangs without a final result fails by its time limit, and its usage is marked as the least', async () => {
  agent = async (line, io) => {
    const message = (output: number): object => ({
      id: 'm',
      content: [],
      usage: { input_tokens: 9, output_tokens: output },
    });
    await line({ type: 'assistant', message: message(1) });
    await line({ type: 'assistant', message: message(4_321) });
    return await hang(io);
  };
  const { outcome, failure, usage } = await resultOf(request('claude'));
  expect([outcome, failure?.code]).toEqual(['failed', 'stage/timeout']);
  expect(usage).toMatchObject({ inputTokens: 9, outputTokens: 4_321, partlyCounted: 1 });
  expect(await warnings()).toEqual([]);
});

test('the session file adds the usage of a cut agent that its stream did not report', async () => {
  const usage = (output: number): object => ({ input_tokens: 9, output_tokens: output });
  agent = async (line, io) => {
    await line({ type: 'system', subtype: 'init', session_id: SESSION });
    await line({ type: 'assistant', message: { id: 'm', content: [], usage: usage(1) } });
    return await hang(io);
  };
  sessionFile = [
    { type: 'assistant', message: { id: 'm', usage: usage(4_321) } },
    { type: 'assistant', message: { id: 'n', usage: usage(5) } },
  ];
  const { failure, usage: used } = await resultOf(request('claude'));
  expect(failure?.code).toBe('stage/timeout');
  // The call that was cut off is in neither.
  expect(used).toMatchObject({ inputTokens: 18, outputTokens: 4_326, turns: 2, partlyCounted: 1 });
});

test('an agent that hung is asked again if its answer does not fit', async () => {
  agent = async (line, io, call) => {
    await answer.claude(line, call === 1 ? 'no JSON' : '{"ok":true}');
    return call === 1 ? await hang(io) : 0;
  };
  const result = await resultOf(request('claude', { stage: { outputSchema: SCHEMA, timeoutMs: 5_000 } }));
  expect(result).toMatchObject({ outcome: 'succeeded' });
  expect(calls).toBe(2);
});

test.each([
  ['before it ended the agent', 'notice'],
  ['after it ended the agent', 'stage-finished'],
])('the answer counts for the worker that takes over from one that died %s', async (_when, dies) => {
  agent = async (line, io) => {
    await answer.claude(line, 'the answer');
    return await hang(io);
  };
  const dying: EventLog = {
    ...stores.events,
    append: async (runId, events, writer) => {
      if (events.some(({ body }) => body.type === dies)) throw new Error('the worker dies here');
      return await stores.events.append(runId, events, writer);
    },
  };
  await expect(resultOf(request('claude'), { events: dying })).rejects.toThrow('the worker dies here');
  expect(await warnings()).toHaveLength(dies === 'stage-finished' ? 1 : 0);
  const result = await resultOf(request('claude'));
  expect(result).toMatchObject({ outcome: 'succeeded' });
  expect(await textOf(result)).toBe('the answer');
  expect(calls).toBe(1);
  expect(await warnings()).toHaveLength(1);
});
