/** The number of times that an attempt asks its agent for an answer that fits its schema. VMs are mocks. */
import { Buffer } from 'node:buffer';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { StageResult } from '../../../domain/run/stage-result.ts';
import { createMockBackend, type MockBackend } from '../../../sandbox/mock/backend.ts';
import { openStores } from '../../../store/open-stores.ts';
import type { Stores } from '../../../store/stores.ts';
import { mockWorkerDeps, plainRequest, plainStage } from '../../../test/rig/runs/mock-worker.ts';
import type { ActivityDeps } from '../../deps.ts';
import type { StageRequest, VmStage } from '../../calls/requests.ts';
import { runStage } from '../run-stage.ts';

const RUN = 'run-1';

interface AgentCall {
  readonly prompt: string;
  readonly resumes: boolean;
}

let stateDir: string;
let backend: MockBackend;
let stores: Stores;
let calls: AgentCall[];
/** The nth answer of the agent, from 1. */
let says: (call: number) => string;
/** The content that the agent writes into its output file; null: it writes no file. */
let writes: string | null;
/** The id of the agent's session in its stream. */
let session: { readonly session_id?: string };
/** Further fields of its result. */
let ending: Readonly<Record<string, unknown>>;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-agent-'));
  calls = [];
  session = { session_id: 's' };
  ending = {};
  writes = null;
  backend = createMockBackend({
    programs: {
      '/usr/lib/voidbox/mock-agents/claude': async ({ args, files, stdin, write }) => {
        const parts: Uint8Array[] = [];
        for await (const part of stdin) parts.push(part);
        if (writes !== null) files.write('/workspace/output.json', Buffer.from(writes));
        calls.push({ prompt: Buffer.concat(parts).toString(), resumes: args.includes('--resume') });
        await write('stdout', `${JSON.stringify({ type: 'system', subtype: 'init', model: 'm', ...session })}\n`);
        const usage = { input_tokens: 5, output_tokens: 2, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
        const ended = { type: 'result', subtype: 'success', is_error: false, num_turns: 1, total_cost_usd: 0.5, usage };
        await write('stdout', `${JSON.stringify({ ...ended, ...session, ...ending, result: says(calls.length) })}\n`);
        return 0;
      },
      '/usr/lib/voidbox/mock-agents/codex': async ({ write }) => {
        calls.push({ prompt: '', resumes: false });
        const line = (value: object): Promise<void> => write('stdout', `${JSON.stringify(value)}\n`);
        await line({ type: 'thread.started', thread_id: 's' });
        await line({ type: 'item.completed', item: { type: 'agent_message', text: says(calls.length) } });
        // The usage covers the whole session, as with the real agent.
        const usage = { input_tokens: 100, cached_input_tokens: 40, output_tokens: 10 };
        const total = Object.entries(usage).map(([name, count]) => [name, count * calls.length]);
        await line({ type: 'turn.completed', usage: Object.fromEntries(total) as object });
        return 0;
      },
    },
  });
  stores = await openStores({ stateDir });
});

afterEach(async () => {
  await backend.release({ runId: RUN, scope: 'think', instance: [], generation: 0 });
  await stores.close();
  rmSync(stateDir, { recursive: true, force: true });
});

function request(change: Partial<VmStage> = {}): StageRequest {
  const work = { kind: 'agent', mode: 'task', prompt: 'Judge it.', llm: null, skills: [], env: [] } as const;
  const stage = plainStage('think', 'think', ['true'], {
    work: { ...work, messaging: false, played: true },
    outputFile: '/workspace/output.json',
    outputSchema: { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean' } } },
    ...change,
  });
  return plainRequest(RUN, stage);
}

async function resultOf(what = request()): Promise<StageResult> {
  const deps = mockWorkerDeps({ stateDir, stores, backend });
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
  return await environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(runStage, deps, what);
}

test('an agent whose answers never fit the schema is asked three times, and fails with its third answer', async () => {
  says = (call) => JSON.stringify({ ok: `no ${call}` });
  const result = await resultOf();
  expect(result).toMatchObject({
    outcome: 'failed',
    output: null,
    failure: { code: 'stage/output-schema', message: expect.stringContaining('/ok must be boolean') as string },
    // Each of the answers is paid for.
    usage: { inputTokens: 15, outputTokens: 6, turns: 3, costUsd: 1.5 },
  });
  expect(calls.map(({ resumes }) => resumes)).toEqual([false, true, true]);
  expect(calls[0]!.prompt).toMatch(/^Judge it\./);
  expect(result.failure?.message).toBe(
    'stage think has an output that does not match its `output_schema`: /ok must be boolean. The agent was asked 3 times; its last answer begins: "{\\"ok\\":\\"no 3\\"}"',
  );
  const reason = 'stage think has an output that does not match its `output_schema`: /ok must be boolean';
  expect(await asked()).toEqual([
    { time: 2, mostTimes: 3, reason },
    { time: 3, mostTimes: 3, reason },
  ]);
  for (const { prompt } of calls.slice(1))
    expect(prompt).toBe(
      'stage think has an output that does not match its `output_schema`: /ok must be boolean. Correct it and give the whole answer again.\n',
    );
});

async function asked(): Promise<readonly object[]> {
  const all: object[] = [];
  for await (const { body } of stores.reader.read(RUN, 0, { output: false }))
    if (body.type === 'agent-asked') all.push({ time: body.time, mostTimes: body.mostTimes, reason: body.reason });
  return all;
}

test('a long last answer is cut in the failure, and its line breaks and escapes are removed', async () => {
  says = () => `I\ncannot\u001b[2J ${'x'.repeat(500)}`;
  const message = (await resultOf()).failure!.message;
  expect(message).toContain('its last answer begins: "I␊cannot xxx');
  expect(message.length).toBeLessThan(500);
});

test('the usage that Codex reports for its whole session counts once, however often it is asked', async () => {
  says = (call) => (call < 3 ? 'no JSON' : '{"ok":true}');
  const llm = { provider: 'codex', model: null, baseUrl: null, apiKeyEnv: null, credentialProxy: false };
  const price = { inputUsd: 1_000, outputUsd: 0 };
  const { outcome, usage } = await resultOf(priced({ llm: { ...llm, price } }));
  expect(outcome).toBe('succeeded');
  expect(usage).toMatchObject({ inputTokens: 300, cachedInputTokens: 120, outputTokens: 30, turns: 3 });
  expect(usage['costUsd']).toBeCloseTo(0.3);
});

test.each([1, 2, 3])('the agent is not asked again after answer %i fits', async (fits) => {
  says = (call) => (call < fits ? 'no JSON' : '{"ok":true}');
  const result = await resultOf();
  expect(result).toMatchObject({ outcome: 'succeeded', failure: null });
  expect(calls).toHaveLength(fits);
});

async function textOf({ output }: StageResult): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of stores.artifacts.open(output!)) parts.push(part);
  return Buffer.concat(parts).toString();
}

test('one Markdown fence around JSON that fits is the answer, and the agent is not asked again', async () => {
  says = () => '```json\n{"ok": true}\n```\n';
  const result = await resultOf();
  expect(result).toMatchObject({ outcome: 'succeeded', failure: null });
  expect(await textOf(result)).toBe('{"ok": true}');
  expect(calls).toHaveLength(1);
});

test('a fence with text around it is no valid answer', async () => {
  says = () => 'An example:\n```json\n{"ok": true}\n```';
  expect(await resultOf()).toMatchObject({ outcome: 'failed', failure: { code: 'stage/output-schema' } });
  expect(calls).toHaveLength(3);
});

test('an output file that is one fence around JSON is the JSON, for a stage with a schema only', async () => {
  says = () => 'I wrote the file.';
  writes = '```json\n{"ok": true}\n```\n';
  const result = await resultOf();
  expect(result.outcome).toBe('succeeded');
  expect(await textOf(result)).toBe('{"ok": true}');
});

test('a fence stays in the output file of a stage without a schema', async () => {
  says = () => 'I wrote the file.';
  writes = '```json\n{"ok": true}\n```\n';
  const { outputSchema: _, ...plain } = request().stage;
  const result = await resultOf({ ...request(), stage: plain });
  expect(result.outcome).toBe('succeeded');
  expect(await textOf(result)).toBe(writes);
});

test('an agent whose session has no name cannot be asked again', async () => {
  session = {};
  says = () => '{"ok":1}';
  const { outcome, failure } = await resultOf();
  expect([outcome, failure?.code]).toEqual(['failed', 'stage/output-schema']);
  expect(failure?.message).toContain(
    'The agent was asked once, and not again because its stream names no session to continue; its last answer begins: "{\\"ok\\":1}"',
  );
  expect(await asked()).toEqual([]);
  expect(calls).toHaveLength(1);
});

test('without a schema every answer is accepted', async () => {
  says = () => 'no JSON';
  const { outputSchema: _, ...plain } = request().stage;
  const result = await resultOf({ ...request(), stage: plain });
  expect(result).toMatchObject({ outcome: 'succeeded' });
  expect(calls).toHaveLength(1);
});

const GUESSED = { modelUsage: { 'my-finetune-7': { costUSD: 0.5, costBasis: 'unknown' } } };
const NO_PRICE =
  'claude has no price for the model "my-finetune-7"; write `price: { input: NUMBER, output: NUMBER }` in `llm`, in US dollars for a million tokens';

async function warnings(): Promise<readonly string[]> {
  const all: string[] = [];
  for await (const { body } of stores.reader.read(RUN, 0, { output: false }))
    if (body.type === 'notice' && body.level === 'warning') all.push(body.message);
  return all;
}

function priced(change: object): StageRequest {
  const { work } = request().stage;
  return request({ work: { ...work, ...change } as VmStage['work'] });
}

test('a cost that the command line guessed is ignored, and one notice reports it', async () => {
  ending = GUESSED;
  says = (call) => (call < 3 ? 'no JSON' : '{"ok":true}');
  const { outcome, usage } = await resultOf();
  expect(outcome).toBe('succeeded');
  expect(usage).toMatchObject({ inputTokens: 15, turns: 3 });
  expect(usage).not.toHaveProperty('costUsd');
  expect(await warnings()).toEqual([`the cost of the agent of stage think is unknown: ${NO_PRICE}`]);
});

test('with a price the cost is known, whatever the command line guesses', async () => {
  ending = GUESSED;
  says = () => '{"ok":true}';
  const llm = { provider: 'claude', model: 'my-finetune-7', baseUrl: null, apiKeyEnv: null, credentialProxy: false };
  const price = { inputUsd: 100_000, outputUsd: 0 };
  const { usage } = await resultOf(priced({ llm: { ...llm, price }, budget: { maxCostUsd: 2 } }));
  expect(usage['costUsd']).toBeCloseTo(0.5);
  expect(await warnings()).toEqual([]);
});

test('an agent with a cost limit and an unknown cost is not asked again, but an answer that fits counts', async () => {
  ending = GUESSED;
  const limited = priced({ budget: { maxCostUsd: 2 } });
  says = () => 'no JSON';
  expect(await resultOf(limited)).toMatchObject({ outcome: 'failed', failure: { code: 'stage/output-schema' } });
  expect(calls).toHaveLength(1);
  expect(await warnings()).toEqual([
    `the cost of the agent of stage think is unknown, so its \`max_cost_usd\` limits nothing: ${NO_PRICE}`,
  ]);
});

test('an agent that stops at a guessed cost fails because its cost is unknown, not because of its budget', async () => {
  ending = { ...GUESSED, subtype: 'error_max_budget_usd', is_error: true };
  says = () => '';
  const { failure } = await resultOf(priced({ budget: { maxCostUsd: 0.25 } }));
  expect(failure?.code).toBe('agent/budget-unknown');
  expect(failure?.message).toBe(
    `the agent of stage think failed: it stopped itself at its \`max_cost_usd\`, by a guess: ${NO_PRICE}`,
  );
  expect(calls).toHaveLength(1);
});
