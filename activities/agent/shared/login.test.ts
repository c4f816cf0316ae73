/** The login of an agent, as the worker checks it when the stage begins. VMs are mocks. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AGENT_DEFAULTS } from '../../../domain/plan/defaults.ts';
import type { AgentWork, LlmProvider } from '../../../domain/plan/plan.ts';
import { EVENT_ID } from '../../../domain/run/event-id.ts';
import type { RunEventBody } from '../../../domain/run/event.ts';
import type { StageResult } from '../../../domain/run/stage-result.ts';
import { createMockBackend, type MockBackend } from '../../../sandbox/mock/backend.ts';
import type { MockIo } from '../../../sandbox/mock/programs.ts';
import { openStores } from '../../../store/open-stores.ts';
import type { Stores } from '../../../store/stores.ts';
import { mockWorkerDeps, plainRequest, plainStage } from '../../../test/rig/runs/mock-worker.ts';
import type { ActivityDeps } from '../../deps.ts';
import { agentProgram } from '../../ports/agent-layers.ts';
import type { StageRequest } from '../../calls/requests.ts';
import { runStage } from '../../attempt/run-stage.ts';

const RUN = 'run-1';
const NOW_MS = Date.UTC(2026, 10, 24, 12);
const TIMEOUT_MS = 1_200_000;
const TOKEN = 'sk-ant-oat01-access';

let stateDir: string;
let stores: Stores;
let backend: MockBackend;
/** The number of agents that have started. */
let begun: number;
/** The events that an agent prints before it waits for its end; null: it answers. */
let printed: readonly object[] | null;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-agent-login-'));
  begun = 0;
  printed = null;
  const agent = async ({ write, killed }: Pick<MockIo, 'write' | 'killed'>): Promise<number> => {
    begun += 1;
    if (printed !== null) {
      for (const event of printed) await write('stdout', `${JSON.stringify(event)}\n`);
      await sleep(60_000, undefined, { signal: killed }).catch(() => undefined);
      return 143;
    }
    const line = { type: 'result', subtype: 'success', is_error: false, result: 'done', session_id: 's', usage: {} };
    await write('stdout', `${JSON.stringify(line)}\n`);
    return 0;
  };
  backend = createMockBackend({ programs: { [agentProgram('claude')]: agent, '/bin/sh': agent } });
  stores = await openStores({ stateDir });
});
afterEach(async () => {
  await stores.close();
  rmSync(stateDir, { recursive: true, force: true });
});

function request(provider: LlmProvider, said: Partial<AgentWork> = {}): StageRequest {
  const llm = { provider, model: null, baseUrl: null, apiKeyEnv: null, credentialProxy: false } as const;
  const work = { ...AGENT_DEFAULTS, kind: 'agent', prompt: 'Work.', llm, ...said } as const;
  const stage = plainStage('think', 'think', ['-'], { work, timeoutMs: TIMEOUT_MS });
  return plainRequest(RUN, stage);
}

function run(what: StageRequest, change: Partial<ActivityDeps> = {}): Promise<StageResult> {
  const deps = mockWorkerDeps({ stateDir, stores, backend }, { now: () => NOW_MS, ...change });
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
  return environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(runStage, deps, what);
}

/** Hands over a login as `voidbox run` does, which read it from the person's file. */
async function handOver(endsAtMs: number): Promise<void> {
  await stores.hostVariables.put(RUN, {
    CLAUDE_CODE_OAUTH_TOKEN: TOKEN,
    'login-end:CLAUDE_CODE_OAUTH_TOKEN': new Date(endsAtMs).toISOString(),
  });
}

async function bodies(): Promise<readonly RunEventBody[]> {
  const all: RunEventBody[] = [];
  for await (const { body } of stores.reader.read(RUN, 0, { output: false })) all.push(body);
  return all;
}

async function warnings(): Promise<readonly string[]> {
  return (await bodies()).flatMap((body) =>
    body.type === 'notice' && body.level === 'warning' && body.message.includes('login') ? [body.message] : [],
  );
}

/** Creates tokens like OpenAI's: the payload is in the middle. */
function codexLogin(claims: object): string {
  const token = ['{}', JSON.stringify(claims), 'sign'].map((part) => Buffer.from(part).toString('base64url')).join('.');
  return JSON.stringify({ tokens: { access_token: token, account_id: 'account-1' } });
}

describe('the end of a Claude login from the file of a person', () => {
  test.each([
    ['that has ended', NOW_MS - 1, 'ended at 2026-11-24T11:59:59.999Z'],
    ['that ends while the VM boots', NOW_MS + 59_999, 'ends at 2026-11-24T12:00:59.999Z'],
  ])(
    'a login %s fails the stage before its VM, and the error does not contain the token',
    async (_, endsAtMs, words) => {
      await handOver(endsAtMs);
      const failure = await run(request('claude-personal')).catch((error: unknown) => error as Error);
      expect(failure).toMatchObject({ type: 'host/login-expires', nonRetryable: true });
      const { message } = failure as Error;
      expect(message).toContain(`the login of Claude that stage think was given ${words}: start \`claude\` once`);
      expect(message).toContain('`voidbox retry`');
      expect(message).not.toContain(TOKEN);
      expect(begun).toBe(0);
      expect((await bodies()).filter(({ type }) => type === 'vm-starting')).toEqual([]);
    },
  );

  test('a login that may expire before its agent ends is a warning, and the agent works', async () => {
    await handOver(NOW_MS + TIMEOUT_MS - 1);
    expect(await run(request('claude-personal'))).toMatchObject({ outcome: 'succeeded' });
    expect(await warnings()).toEqual([
      'the login of Claude ends at 2026-11-24T12:19:59.999Z, and stage think may take 1200 s: after that its calls of the model fail',
    ]);
  });

  test('a login that lasts long enough is no warning', async () => {
    await handOver(NOW_MS + TIMEOUT_MS);
    expect(await run(request('claude-personal'))).toMatchObject({ outcome: 'succeeded' });
    expect(await warnings()).toEqual([]);
  });

  test('a service has no time limit: an expired login fails it, and every other expiry is a warning', async () => {
    await handOver(NOW_MS + 10 * TIMEOUT_MS);
    expect(await run(request('claude-personal', { mode: 'service' }))).toMatchObject({ outcome: 'succeeded' });
    expect(await warnings()).toEqual([expect.stringContaining('stage think serves until it is cancelled')]);
    await handOver(NOW_MS);
    const again = { ...request('claude-personal', { mode: 'service' }), execKey: 'think/0/2', attempt: 2 };
    await expect(run(again)).rejects.toMatchObject({ type: 'host/login-expires' });
  });

  test('an attempt that has begun continues: a worker that takes it over does not end it', async () => {
    await handOver(NOW_MS - 1);
    const body = { type: 'stage-started', stage: 'think', execKey: 'think/0/1', attempt: 1 } as const;
    await stores.events.append(RUN, [{ id: EVENT_ID.attempt('think/0/1', 'started'), atMs: 1, body }]);
    expect(await run(request('claude-personal'))).toMatchObject({ outcome: 'succeeded' });
  });

  test('time in which the stage waits for its VM counts', async () => {
    await handOver(NOW_MS + 90_000);
    let nowMs = NOW_MS;
    const launch = backend.launch.bind(backend);
    backend.launch = (...args) => {
      nowMs += 60_000;
      return launch(...args);
    };
    await expect(run(request('claude-personal'), { now: () => nowMs })).rejects.toMatchObject({
      type: 'host/login-expires',
    });
    expect(begun).toBe(0);
  });

  test.each([
    ['no variable has its expiry', { CLAUDE_CODE_OAUTH_TOKEN: TOKEN }],
    ['its end is no time', { CLAUDE_CODE_OAUTH_TOKEN: TOKEN, 'login-end:CLAUDE_CODE_OAUTH_TOKEN': 'soon' }],
  ])('%s: the agent gets the login', async (_, variables) => {
    await stores.hostVariables.put(RUN, variables);
    expect(await run(request('claude-personal'))).toMatchObject({ outcome: 'succeeded' });
    expect(await warnings()).toEqual([]);
  });

  test('the expiry of a login that was handed over does not apply to a login that the worker lends', async () => {
    await stores.hostVariables.put(RUN, { 'login-end:CLAUDE_CODE_OAUTH_TOKEN': new Date(NOW_MS - 1).toISOString() });
    const lentVariables = { read: () => Promise.resolve({ CLAUDE_CODE_OAUTH_TOKEN: 'lent' }) };
    expect(await run(request('claude-personal'), { lentVariables })).toMatchObject({ outcome: 'succeeded' });
  });
});

describe('the end of a Codex login, which its token contains', () => {
  const lending = (text: string): Partial<ActivityDeps> => ({
    lentVariables: { read: () => Promise.resolve({ CODEX_AUTH_JSON: text }) },
  });

  test('an expired login fails the stage before its VM, also if the worker lends it', async () => {
    await expect(run(request('codex-personal'), lending(codexLogin({ exp: NOW_MS / 1_000 })))).rejects.toMatchObject({
      type: 'host/login-expires',
      message: expect.stringContaining('the login of Codex that stage think was given ended at') as string,
    });
    expect(begun).toBe(0);
  });

  test('a login that may expire before its agent ends is a warning', async () => {
    await run(request('codex-personal'), lending(codexLogin({ exp: NOW_MS / 1_000 + 300, name: 'Zoë "x", }' })));
    expect(await warnings()).toEqual([expect.stringContaining('the login of Codex ends at 2026-11-24T12:05:00.000Z')]);
    expect(begun).toBe(1);
  });

  test('a login without an expiry is passed to the agent, and an unreadable login is refused', async () => {
    await run(request('codex-personal'), lending(codexLogin({})));
    expect(begun).toBe(1);
    expect(await warnings()).toEqual([]);
    const again = { ...request('codex-personal'), execKey: 'think/0/2', attempt: 2 };
    await expect(run(again, lending('{'))).rejects.toMatchObject({ type: 'host/login-invalid' });
  });
});

describe('that the server refuses', () => {
  const retry = (attempt: number, status: number): object => ({
    type: 'system',
    subtype: 'api_retry',
    attempt,
    max_retries: 10,
    error_status: status,
    error: 'authentication_failed',
  });

  test('once ends the agent, which would otherwise retry for minutes', async () => {
    await stores.hostVariables.put(RUN, { CLAUDE_CODE_OAUTH_TOKEN: TOKEN });
    printed = [retry(1, 401)];
    const result = await run(request('claude-personal'), { now: Date.now });
    expect(result.failure).toMatchObject({
      code: 'agent/api-error',
      message:
        "the agent of stage think was stopped: the model's server refused its key or login (401 authentication_failed)",
    });
    expect(begun).toBe(1);
  });

  test('an overloaded server does not end the agent', async () => {
    await stores.hostVariables.put(RUN, { CLAUDE_CODE_OAUTH_TOKEN: TOKEN });
    printed = [1, 2, 3, 4].map((attempt) => retry(attempt, 529));
    const short = request('claude-personal');
    const stage = { ...short.stage, timeoutMs: 2_000 };
    const result = await run({ ...short, stage }, { now: Date.now });
    expect(result.failure?.code).toBe('stage/timeout');
  });
});
