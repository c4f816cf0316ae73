/** Model servers that refuse connections. VMs are mocks; their doors report what a test sets. */
import { Buffer } from 'node:buffer';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { withWrittenServer } from '../../../domain/agent/provider-hosts.ts';
import type { AgentWork, LlmPlan } from '../../../domain/plan/plan.ts';
import type { StageResult } from '../../../domain/run/stage-result.ts';
import { createMockBackend, type MockBackend } from '../../../sandbox/mock/backend.ts';
import type { MockIo } from '../../../sandbox/mock/programs.ts';
import { openStores } from '../../../store/open-stores.ts';
import type { Stores } from '../../../store/stores.ts';
import { mockWorkerDeps, plainRequest, plainStage } from '../../../test/rig/runs/mock-worker.ts';
import type { ActivityDeps } from '../../deps.ts';
import { modelRefusal } from './model-server.ts';
import type { StageRequest } from '../../calls/requests.ts';
import { runStage } from '../../attempt/run-stage.ts';

const RUN = 'run-1';
const LLM: LlmPlan = {
  provider: 'custom',
  model: 'm',
  baseUrl: 'http://localhost:8123/v1',
  apiKeyEnv: null,
  credentialProxy: false,
};
const REFUSED = {
  kind: 'refused',
  cause: 'failed',
  reason: 'connecting to llm: Connection refused (os error 111)',
  service: 'llm',
  port: 8123,
} as const;

let stateDir: string;
let stores: Stores;
let mock: MockBackend;
let launches: number;
/** The notices of the door. */
let told: string;
let agent: (io: MockIo) => Promise<number>;
/** Runs between the start of a command and the answer that names it. */
let afterExec: () => Promise<void>;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-model-server-'));
  launches = 0;
  told = '';
  afterExec = async () => undefined;
  mock = createMockBackend({ programs: { '/opt/agents/claude/bin/claude': async (io) => await agent(io) } });
  stores = await openStores({ stateDir });
});

afterEach(async () => {
  await mock.release({ runId: RUN, scope: 'think', instance: [], generation: 0 });
  rmSync(stateDir, { recursive: true, force: true });
});

function request(llm: LlmPlan = LLM, played = false, timeoutMs = 4_000): StageRequest {
  const base = { kind: 'agent', mode: 'task', prompt: 'Do it.', llm, skills: [], env: [], messaging: false } as const;
  const work: AgentWork = { ...base, ...(played ? { played } : {}) };
  const plain = plainRequest(RUN, plainStage('think', 'think', ['true'], { work, timeoutMs }));
  const sandbox = { ...plain.scope.sandbox, egress: { allow: 'any', deny: [], services: [] } };
  return { ...plain, scope: { ...plain.scope, sandbox } } as unknown as StageRequest;
}

async function resultOf(what: StageRequest, change: Partial<ActivityDeps>): Promise<StageResult> {
  // Acts as a real VM, because a stage on a mock backend probes no server.
  const backend = {
    ...mock,
    name: 'qemu',
    launch: async (...args: Parameters<MockBackend['launch']>) => {
      launches += 1;
      const sandbox = await mock.launch(...args);
      const exec: typeof sandbox.exec = async (...how) => {
        const started = await sandbox.exec(...how);
        await afterExec();
        return started;
      };
      return new Proxy(sandbox, {
        get: (target, name) => {
          if (name === 'exec') return exec;
          const value: unknown = Reflect.get(target, name);
          return typeof value === 'function' ? value.bind(target) : value;
        },
      });
    },
    notices: async (_key: unknown, offset: number) => Buffer.from(told).subarray(offset),
  };
  const deps = mockWorkerDeps({ stateDir, stores, backend: backend as unknown as MockBackend }, change);
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
  return await environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(runStage, deps, what);
}

async function typesOf(): Promise<readonly string[]> {
  const types: string[] = [];
  for await (const { body } of stores.reader.read(RUN, 0, { output: false })) types.push(body.type);
  return types;
}

const noticeAt = (atMs: number): string => `${JSON.stringify({ atMs, ...REFUSED })}\n`;

describe('a server on the host that refuses connections', () => {
  test('fails the stage before its VM boots, with the address of the spec', async () => {
    const probed: number[] = [];
    const isPortClosed = async (port: number): Promise<boolean> => probed.push(port) > 0;
    const result = await resultOf(request(), { isPortClosed });
    expect(result).toMatchObject({
      outcome: 'failed',
      failure: {
        code: 'agent/api-error',
        message:
          "the agent of stage think cannot start: the model's server http://localhost:8123/v1 refused the connection: start it, or correct `base_url`",
      },
    });
    expect([probed, launches]).toEqual([[8123], 0]);
  });

  test('is named as its provider expects it if the spec names none', async () => {
    const ollama: LlmPlan = { ...LLM, provider: 'ollama', baseUrl: null };
    const { failure } = await resultOf(request(ollama), { isPortClosed: async (port) => port === 11434 });
    expect(failure?.message).toContain('http://127.0.0.1:11434 refused the connection');
  });

  test.each([
    ['a server that takes connections', LLM, false, false],
    ['an agent that is played', LLM, true, true],
    ['a server elsewhere', { ...LLM, baseUrl: 'https://llm.example.com' }, false, true],
  ])('is no reason to refuse %s', async (_name, llm, played, isClosed) => {
    agent = async ({ write }) => {
      const result = {
        type: 'result',
        subtype: 'success',
        is_error: false,
        num_turns: 1,
        result: 'x',
        session_id: 's',
      };
      await write('stdout', `${JSON.stringify(result)}\n`);
      return 0;
    };
    const result = await resultOf(request(llm, played), { isPortClosed: async () => isClosed });
    expect(launches).toBe(1);
    expect(result.failure?.code).not.toBe('agent/api-error');
  });
});

describe('a connection that the door could not make', () => {
  const since = 1_000;
  test.each([
    ['ends the agent', LLM, { atMs: 1_000 }, true],
    ['was before the agent', LLM, { atMs: 999 }, false],
    ['has no time', LLM, { atMs: null }, false],
    ['took too long', LLM, { reason: 'connecting to llm took longer than 300 ms' }, false],
    ['was refused by a rule', LLM, { cause: 'rules' }, false],
    ['was to another service', LLM, { service: 'db' }, false],
    ['was to another port', LLM, { port: 1 }, false],
    [
      'was to the server elsewhere',
      { ...LLM, baseUrl: 'https://LLM.example.com' },
      { service: undefined, host: 'llm.example.com', port: 443 },
      true,
    ],
    [
      'was to another host',
      { ...LLM, baseUrl: 'https://llm.example.com' },
      { service: undefined, host: 'x.example.com', port: 443 },
      false,
    ],
    [
      "was to the provider's own hosts",
      { ...LLM, provider: 'claude', baseUrl: null },
      { service: undefined, host: 'api.anthropic.com', port: 443 },
      false,
    ],
  ] as const)('%s', (_name, llm, change, isRefused) => {
    const { atMs = since, ...notice } = change as { readonly atMs?: number | null };
    const refusal = modelRefusal(llm, since, { offset: 0, atMs, notice: { ...REFUSED, ...notice } });
    expect(refusal?.code).toBe(isRefused ? 'agent/api-error' : undefined);
  });

  test.each([true, false])('ends an agent whose model has not answered (answered: %s)', async (hasAnswered) => {
    agent = async ({ write, killed }) => {
      const said = { type: 'assistant', message: { id: 'm', content: [{ type: 'text', text: 'I look.' }] } };
      if (hasAnswered) await write('stdout', `${JSON.stringify(said)}\n`);
      // A refusal ends only an agent that has printed nothing yet.
      while (hasAnswered && !(await typesOf()).includes('agent-text')) await sleep(5, undefined, { signal: killed });
      told = noticeAt(Date.now());
      return await sleep(60_000, 0, { signal: killed });
    };
    // Only an agent that has answered works until its time limit.
    const timeoutMs = hasAnswered ? 4_000 : 3_600_000;
    const { failure } = await resultOf(request(LLM, false, timeoutMs), {});
    expect(failure?.code).toBe(hasAnswered ? 'stage/timeout' : 'agent/api-error');
    if (hasAnswered) return;
    expect(failure?.message).toContain(
      "was stopped: the model's server http://localhost:8123/v1 refused the connection",
    );
  });
});

test('a refusal before the worker knows that the agent started ends the agent', async () => {
  agent = async ({ killed }) => {
    told = noticeAt(Date.now());
    return await sleep(60_000, 0, { signal: killed });
  };
  afterExec = async () => {
    while (!(await typesOf()).includes('network')) await sleep(5);
  };
  const { failure } = await resultOf(request(LLM, false, 3_600_000), {});
  expect(failure?.code).toBe('agent/api-error');
});

test("the server's address in messages of the guest is replaced by the address of the spec", () => {
  expect(withWrittenServer(LLM, 'no route to http://llm:8123/v1/messages')).toBe(
    'no route to http://localhost:8123/v1/messages',
  );
  expect(withWrittenServer(LLM, 'http://llm:81234 and my-llm:8123')).toBe('http://llm:81234 and my-llm:8123');
  expect(withWrittenServer({ ...LLM, baseUrl: 'https://llm.example.com' }, 'llm:443')).toBe('llm:443');
  expect(withWrittenServer(null, 'llm:80')).toBe('llm:80');
});
