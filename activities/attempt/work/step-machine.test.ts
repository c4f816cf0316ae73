/**
 * How an attempt drives the session of a step machine, for every state of the session and every moment at which the
 * attempt dies. VMs are mocks.
 */
import { Buffer } from 'node:buffer';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ActivityCancellationDetails } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CodedError } from '../../../domain/errors/coded-error.ts';
import type { BudgetPlan } from '../../../domain/plan/plan.ts';
import type { RunEvent } from '../../../domain/run/event.ts';
import type { StageResult } from '../../../domain/run/stage-result.ts';
import { createMockBackend, type MockBackend } from '../../../sandbox/mock/backend.ts';
import { openStores } from '../../../store/open-stores.ts';
import type { Stores } from '../../../store/stores.ts';
import { mockWorkerDeps, plainRequest, plainStage } from '../../../test/rig/runs/mock-worker.ts';
import type { ActivityDeps } from '../../deps.ts';
import type { SessionAnswerGiven, SessionStanding, StageSessions } from '../../ports/stage-sessions.ts';
import type { StageRequest, VmStage } from '../../calls/requests.ts';
import { sessionOfStage } from './step-machine.ts';
import { runStage } from '../run-stage.ts';

const RUN = 'run-1';
const KEY = { runId: RUN, scope: 'talk', instance: [], generation: 0 };
const CODE = { skill: 'talk', version: '1.0.0', codeHash: 'a'.repeat(64) };

interface AgentCall {
  readonly prompt: string;
  readonly resumes: boolean;
}

let stateDir: string;
let backend: MockBackend;
let stores: Stores;
let calls: AgentCall[];
/** The agent's answer to a prompt, and the condition for which it waits. */
let says: (prompt: string, call: number) => string | { readonly text: string; readonly mayAnswer: () => boolean };

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-skill-'));
  calls = [];
  says = () => '{"ok":true}';
  backend = createMockBackend({
    programs: {
      '/usr/lib/voidbox/mock-agents/claude': async ({ args, stdin, killed, write }) => {
        const parts: Uint8Array[] = [];
        for await (const part of stdin) parts.push(part);
        const prompt = Buffer.concat(parts).toString();
        calls.push({ prompt, resumes: args.includes('--resume') });
        const said = says(prompt, calls.length);
        const { text, mayAnswer } = typeof said === 'string' ? { text: said, mayAnswer: () => true } : said;
        await write('stdout', `${JSON.stringify({ type: 'system', subtype: 'init', session_id: 's', model: 'm' })}\n`);
        while (!mayAnswer()) await sleep(5, undefined, { signal: killed });
        const usage = { input_tokens: 5, output_tokens: 2, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
        const end = {
          type: 'result',
          subtype: 'success',
          is_error: false,
          result: text,
          session_id: 's',
          num_turns: 1,
        };
        await write('stdout', `${JSON.stringify({ ...end, total_cost_usd: 0.5, usage })}\n`);
        return 0;
      },
    },
  });
  stores = await openStores({ stateDir });
});

afterEach(async () => {
  await backend.release(KEY);
  await stores.close();
  rmSync(stateDir, { recursive: true, force: true });
});

interface PlayedSession extends StageSessions {
  readonly answers: SessionAnswerGiven[];
  readonly cancelled: string[];
  starts: number;
}

/** @param next returns the state after an answer; the same answer for the same turn returns the same state */
function played(
  first: SessionStanding,
  next: (answer: SessionAnswerGiven, count: number) => SessionStanding,
  settled: () => SessionStanding = () => first,
): PlayedSession {
  const taken = new Map<string, SessionStanding>();
  const session: PlayedSession = {
    answers: [],
    cancelled: [],
    starts: 0,
    identify: () => Promise.resolve(CODE),
    start: () => {
      session.starts += 1;
      return Promise.resolve(first);
    },
    answer: (_session, answer) => {
      const key = JSON.stringify(answer);
      const before = taken.get(key);
      if (before !== undefined && before.kind !== 'error') return Promise.resolve(before);
      session.answers.push(answer);
      const standing = next(answer, session.answers.length);
      taken.set(key, standing);
      return Promise.resolve(standing);
    },
    settle: () => Promise.resolve(settled()),
    cancel: (id) => {
      session.cancelled.push(id);
      return Promise.resolve();
    },
  };
  return session;
}

const prompt = (step: string, turn: number): SessionStanding => ({
  kind: 'prompt',
  step,
  turn,
  prompt: `Do ${step}.`,
  schema: { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean' } } },
});
const done = (finalOutput: unknown): SessionStanding => ({ kind: 'done', done: true, finalOutput });
const refused = (step: string): SessionStanding => ({
  kind: 'error',
  error: 'validation',
  step,
  message: 'ok: expected true',
  retry: true,
});

function request(change: Partial<VmStage> = {}): StageRequest {
  const work = {
    kind: 'skill',
    source: { kind: 'host', path: '/s' },
    params: {},
    llm: null,
    skills: [],
    env: [],
  } as const;
  const stage = plainStage('talk', 'talk', ['true'], { work: { ...work, code: CODE, played: true }, ...change });
  return plainRequest(RUN, stage);
}

function begin(stageSessions: StageSessions, what = request(), change: Partial<ActivityDeps> = {}) {
  const deps = mockWorkerDeps({ stateDir, stores, backend }, { stageSessions, ...change });
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
  const result = environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(runStage, deps, what);
  result.catch(() => undefined);
  return {
    result,
    cancel: (details: ConstructorParameters<typeof ActivityCancellationDetails>[0]) =>
      environment.cancel('CANCELLED', new ActivityCancellationDetails(details)),
  };
}

async function steps(): Promise<Extract<RunEvent['body'], { type: 'skill-step' }>[]> {
  const found: Extract<RunEvent['body'], { type: 'skill-step' }>[] = [];
  for await (const { body } of stores.reader.read(RUN, 0)) if (body.type === 'skill-step') found.push(body);
  return found;
}

async function textOf({ output }: StageResult): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of stores.artifacts.open(output!)) parts.push(part);
  return Buffer.concat(parts).toString();
}

const untilCalled = async (count: number): Promise<void> => {
  while (calls.length < count) await sleep(5);
};

test('each prompt is a turn of one conversation; the result of the session is the output, and the cost is the sum of all turns', async () => {
  const session = played(prompt('one', 1), ({ step }) => (step === 'one' ? prompt('two', 2) : done({ sum: 2 })));
  const result = await begin(session).result;
  expect(result).toMatchObject({ outcome: 'succeeded', output: { mediaType: 'application/json' } });
  expect(await textOf(result)).toBe('{"sum":2}');
  expect(result.usage).toMatchObject({ inputTokens: 10, outputTokens: 4, costUsd: 1 });
  expect(session.answers).toEqual([
    { step: 'one', turn: 1, output: { ok: true } },
    { step: 'two', turn: 2, output: { ok: true } },
  ]);
  expect(calls.map(({ resumes }) => resumes)).toEqual([false, true]);
  expect(calls[0]!.prompt).toMatch(/^Do one\.\n\n[\s\S]*JSON Schema\.\n\{"type":"object"/);
  expect(session.cancelled).toEqual([]);
});

test('a session that asks nothing returns its result without an agent', async () => {
  const result = await begin(played(done(null), () => done(null))).result;
  expect(result.outcome).toBe('succeeded');
  expect(result.agent).toBe(undefined);
  expect(await textOf(result)).toBe('null');
  expect(calls).toEqual([]);
});

test('the agent is asked again with the reason after a refused answer', async () => {
  says = (_prompt, call) => (call === 2 ? '```json\n{"ok":true}\n```' : 'no');
  const session = played(prompt('one', 1), ({ output }) => (typeof output === 'string' ? refused('one') : done(1)));
  expect(await textOf(await begin(session).result)).toBe('1');
  expect(calls[1]!.prompt).toMatch(/^Your answer was not accepted: ok: expected true\n/);
  expect((await steps()).map(({ refusal }) => refusal)).toEqual([null, 'ok: expected true']);
});

test('the fifth refused answer fails the stage and ends its session', async () => {
  says = (_prompt, call) => `no ${call}`;
  const session = played(prompt('one', 1), () => refused('one'));
  const result = await begin(session).result;
  expect(result).toMatchObject({ outcome: 'failed', failure: { code: 'skill/answers-refused' } });
  expect(result.failure!.message).toContain('rejected 5 answers of the agent to step one');
  expect(result.failure!.message).toMatch(/; that answer begins: "no 5"$/);
  expect(calls).toHaveLength(5);
  expect(session.cancelled).toEqual([sessionOfStage(request())]);
});

test('a machine without an end is ended at its two hundredth prompt', async () => {
  const session = played(prompt('round', 1), (_answer, count) => prompt('round', count + 1));
  const result = await begin(session).result;
  expect(result).toMatchObject({ outcome: 'failed', failure: { code: 'skill/too-many-prompts' } });
  expect(calls).toHaveLength(200);
  expect(session.cancelled).toHaveLength(1);
}, 300_000);

test('a step that waits for a person fails the stage, which has only an agent', async () => {
  const person: SessionStanding = { ...prompt('sign', 1), human: { assignee: 'Ada' } } as SessionStanding;
  const session = played(person, () => done(1));
  const result = await begin(session).result;
  expect(result).toMatchObject({ outcome: 'failed', failure: { code: 'skill/asks-person' } });
  expect(result.failure!.message).toContain('step sign of the step machine waits for Ada');
  expect(session.cancelled).toHaveLength(1);
});

test('a session that cannot be opened, or has failed, fails the stage with its reason', async () => {
  const session = played({ kind: 'unopened', code: 'skill/params', message: 'place: expected string' }, () => done(1));
  expect((await begin(session).result).failure).toMatchObject({ code: 'skill/params' });
});

test('if another client answered before the agent, the stage continues with the next question', async () => {
  const order: SessionStanding = { kind: 'error', error: 'order', step: 'one', message: 'not current', retry: false };
  const session = played(
    prompt('one', 1),
    ({ step }) => (step === 'one' ? order : done('end')),
    () => prompt('two', 2),
  );
  expect(await textOf(await begin(session).result)).toBe('"end"');
  expect((await steps()).map(({ step, turn, refusal }) => [step, turn, refusal])).toEqual([
    ['one', 1, null],
    ['two', 2, null],
  ]);
});

test('a session that waits is checked when its time has come, and not after the deadline of the stage', async () => {
  const dueMs = Date.now() + 200;
  const waiting: SessionStanding = { kind: 'waiting', step: 'nap', dueMs };
  const session = played(
    waiting,
    () => done(1),
    () => (Date.now() >= dueMs ? done('awake') : waiting),
  );
  expect(await textOf(await begin(session).result)).toBe('"awake"');
});

test('code that is unavailable until the deadline of the stage causes a timeout', async () => {
  const away: SessionStanding = { kind: 'error', error: 'away', step: '', message: 'gone', retry: true };
  const result = await begin(
    played(away, () => done(1)),
    request({ timeoutMs: 300 }),
  ).result;
  expect(result).toMatchObject({ outcome: 'failed', failure: { code: 'stage/timeout' } });
});

test('the output of all turns together has a limit', async () => {
  says = () => JSON.stringify({ ok: 'x'.repeat(3_000) });
  const session = played(prompt('round', 1), (_answer, count) => prompt('round', count + 1));
  const result = await begin(session, request({ maxOutputBytes: 16 * 1024 })).result;
  expect(result).toMatchObject({ outcome: 'failed', failure: { code: 'stage/output-limit' } });
  expect(calls.length).toBeLessThan(10);
});

test('if an attempt detaches during a turn, the next attempt attaches to it and answers once', async () => {
  let isLetGo = false;
  says = (text) => (text.includes('Do two') ? { text: '{"ok":true}', mayAnswer: () => isLetGo } : '{"ok":true}');
  const session = played(prompt('one', 1), ({ step }) => (step === 'one' ? prompt('two', 2) : done('end')));
  const first = begin(session);
  await untilCalled(2);
  first.cancel({ workerShutdown: true });
  await expect(first.result).rejects.toMatchObject({ type: 'attempt/detached' });
  isLetGo = true;
  expect(await textOf(await begin(session).result)).toBe('"end"');
  expect(calls).toHaveLength(2);
  expect(session.answers.map(({ step }) => step)).toEqual(['one', 'two']);
  expect((await steps()).map(({ command }) => command)).toEqual([1, 2]);
});

function withBudget(budget: BudgetPlan): StageRequest {
  const what = request();
  if (what.stage.work.kind !== 'skill') throw new Error('no skill');
  return { ...what, stage: { ...what.stage, work: { ...what.stage.work, budget } } };
}

/** Asks for steps 1, 2, … and ends after the given number of prompts. */
const asking = (prompts: number): PlayedSession =>
  played(prompt('1', 1), ({ step }) =>
    Number(step) < prompts ? prompt(`${Number(step) + 1}`, Number(step) + 1) : done('end'),
  );

// Each turn of the agent is a call of 5 + 2 tokens and $0.50.
test.each([
  [{ maxTurns: 2 }, 'agent/budget-turns', 'has made 2 calls of the model, of 2 in its budget'],
  [{ maxTokens: 14 }, 'agent/budget-tokens', 'has used 14 tokens, of 14 in its budget'],
  [{ maxTokens: 8 }, 'agent/budget-tokens', 'has used 14 tokens, of 8 in its budget'],
  [{ maxCostUsd: 0.75 }, 'agent/budget-cost', 'has cost $1.0000, of $0.7500 in its budget'],
] as const)('a budget of %o holds for all turns of the agent: the third is not asked', async (budget, code, words) => {
  const session = asking(3);
  const result = await begin(session, withBudget(budget)).result;
  expect(result).toMatchObject({
    outcome: 'failed',
    failure: { code, message: `stage talk: the session has another prompt in step 3, but the agent ${words}` },
    usage: { inputTokens: 10, outputTokens: 4, turns: 2 },
  });
  expect([calls.length, session.answers.length, session.cancelled.length]).toEqual([2, 2, 1]);
});

test('a session that ends within the budget of its agent succeeds, even if the budget is just used up', async () => {
  const result = await begin(asking(2), withBudget({ maxTurns: 2, maxTokens: 14, maxCostUsd: 1 })).result;
  expect(result).toMatchObject({ outcome: 'succeeded', usage: { turns: 2 } });
});

test('a worker that takes an attempt over counts the turns of earlier workers once', async () => {
  let isLetGo = false;
  says = (text) => (text.includes('Do 2') ? { text: '{"ok":true}', mayAnswer: () => isLetGo } : '{"ok":true}');
  const session = asking(3);
  const what = withBudget({ maxTurns: 3 });
  const first = begin(session, what);
  await untilCalled(2);
  first.cancel({ workerShutdown: true });
  await expect(first.result).rejects.toMatchObject({ type: 'attempt/detached' });
  isLetGo = true;
  expect(await begin(session, what).result).toMatchObject({ outcome: 'succeeded', usage: { turns: 3 } });
  expect(calls).toHaveLength(3);
});

test('the budget of the run applies to the agent of a step machine too', async () => {
  const session = asking(3);
  const result = await begin(session, { ...request(), runBudget: { maxTokens: 14 } }).result;
  expect(result).toMatchObject({ outcome: 'failed', failure: { code: 'run/budget-tokens' } });
  expect(calls).toHaveLength(2);
});

test('if an attempt dies between the answer and the next step, the next attempt gives the same answer', async () => {
  const session = played(prompt('one', 1), ({ step }) => (step === 'one' ? prompt('two', 2) : done('end')));
  const dying: StageSessions = {
    ...session,
    answer: async (...given) => {
      await session.answer(...given);
      throw new CodedError('store/io', 'the process is gone');
    },
  };
  await expect(begin(dying).result).rejects.toMatchObject({ type: 'store/io' });
  expect(await textOf(await begin(session).result)).toBe('"end"');
  expect(calls).toHaveLength(2);
  expect(session.answers).toHaveLength(2);
});

test('if an attempt dies between the record of a prompt and the agent, the next attempt asks the recorded prompt', async () => {
  let dead = true;
  const session = played(prompt('one', 1), () => done('end'));
  const exec: MockBackend['launch'] = async (...given) => {
    const sandbox = await backend.launch(...given);
    return dead ? { ...sandbox, exec: () => Promise.reject(new CodedError('store/io', 'gone')) } : sandbox;
  };
  const change = { backendFor: () => ({ ...backend, launch: exec }) };
  await expect(begin(session, request(), change).result).rejects.toMatchObject({ type: 'store/io' });
  dead = false;
  expect(await steps()).toHaveLength(1);
  expect(await textOf(await begin(session, request(), change).result)).toBe('"end"');
  expect(await steps()).toHaveLength(1);
  expect(calls).toHaveLength(1);
});

test('a cancel in a turn ends the agent and the session', async () => {
  says = () => ({ text: '{}', mayAnswer: () => false });
  const session = played(prompt('one', 1), () => done(1));
  const attempt = begin(session);
  await untilCalled(1);
  attempt.cancel({ cancelRequested: true });
  expect(await attempt.result).toMatchObject({ outcome: 'cancelled', agent: { provider: 'claude' } });
  expect(session.cancelled).toEqual([sessionOfStage(request())]);
});

test('a lost VM ends its session: another attempt has another session', async () => {
  says = () => ({ text: '{}', mayAnswer: () => false });
  const session = played(prompt('one', 1), () => done(1));
  const attempt = begin(session);
  await untilCalled(1);
  backend.lose(KEY);
  await expect(attempt.result).rejects.toMatchObject({ type: 'vm/lost' });
  expect(session.cancelled).toHaveLength(1);
  expect(sessionOfStage({ runId: RUN, execKey: 'talk/0/2' })).not.toBe(sessionOfStage(request()));
});
