/**
 * A worker dies after its agent has ended and before the agent has a result: the next worker returns the same result.
 * VMs are mocks.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { BudgetPlan } from '../../domain/plan/plan.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { createMockBackend, type MockBackend } from '../../sandbox/mock/backend.ts';
import type { MockProgram } from '../../sandbox/mock/programs.ts';
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

let stateDir: string;
let backend: MockBackend;
let stores: Stores;
/** The follower finds no session file and ends at once. */
let endsEarly: boolean;
/** Resolves if a follower has ended that way. */
let followerEnded: Promise<void>;
let reportFollowerEnd: () => void;
/** The number of calls of the agent. */
let calls: number;
/** The output and the exit code of the nth call of the agent, from 1. */
let agent: (call: number, write: (line: object) => Promise<void>, killed: AbortSignal) => Promise<number>;

const killedSoon = (killed: AbortSignal): Promise<number> => sleep(10_000, 0, { signal: killed });

/** One call of the model, as Codex writes it into its session file. */
const counted = (total: number): string =>
  `${JSON.stringify({
    type: 'event_msg',
    payload: {
      type: 'token_count',
      info: { total_token_usage: { input_tokens: total }, last_token_usage: { input_tokens: 100 } },
    },
  })}\n`;

/** Replaces `tail`: each command of the agent makes three calls of the model. */
const follower: MockProgram = async ({ args, killed, write }) => {
  if (endsEarly) {
    reportFollowerEnd();
    return 3;
  }
  if (args.at(-1) === 'end') await write('stdout', 'ready\n');
  // Starts when the agent of its own command works.
  const command = args.at(-1) === 'end' ? 2 : 1;
  while (calls < command) await sleep(5, undefined, { signal: killed });
  for (let call = 1; call <= 3; call += 1) await write('stdout', counted(command * 1_000 + call));
  return await killedSoon(killed);
};

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-taken-over-'));
  calls = 0;
  endsEarly = false;
  followerEnded = new Promise((resolve) => (reportFollowerEnd = resolve));
  backend = createMockBackend({
    programs: {
      '/bin/sh': follower,
      '/usr/lib/voidbox/mock-agents/codex': async ({ killed, write }) => {
        calls += 1;
        const line = (value: object): Promise<void> => write('stdout', `${JSON.stringify(value)}\n`);
        await line({ type: 'thread.started', thread_id: SESSION });
        return await agent(calls, line, killed);
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

function request(budget: BudgetPlan, change: Partial<VmStage> = {}): StageRequest {
  const llm = { provider: 'codex', model: null, baseUrl: null, apiKeyEnv: null, credentialProxy: false } as const;
  const work = { kind: 'agent', mode: 'task', prompt: 'Judge it.', llm, skills: [], env: [], budget } as const;
  return plainRequest(
    RUN,
    plainStage('think', 'think', ['true'], { work: { ...work, messaging: false, played: true }, ...change }),
  );
}

async function resultOf(what: StageRequest, change: Partial<ActivityDeps> = {}): Promise<StageResult> {
  const deps = mockWorkerDeps({ stateDir, stores, backend }, change);
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
  return await environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(runStage, deps, what);
}

const STREAMS = ['agent', 'file'] as const;
type Stream = (typeof STREAMS)[number];

/** A keeper may report the end of a command before the first byte of its output, or long after the last byte. */
function answering(slow: Stream): MockBackend {
  return {
    ...backend,
    launch: async (...args: Parameters<MockBackend['launch']>) => {
      const sandbox = await backend.launch(...args);
      return {
        ...sandbox,
        exec: async (request, signal) => {
          const exec = await sandbox.exec(request, signal);
          const isAgent = request.program !== '/bin/sh';
          return {
            ...exec,
            async *output(stream, offset, within) {
              if (isAgent === (slow === 'agent') && stream === 'stdout')
                await sleep(100, undefined, { signal: within });
              yield* exec.output(stream, offset, within);
            },
            async wait(within) {
              const exit = await exec.wait(within);
              if (isAgent && slow === 'file') await sleep(100, undefined, { signal: within });
              return exit;
            },
          };
        },
      };
    },
  };
}

/** The result of the worker that takes over from a worker that died when it had the result. */
async function resultAfterDeath(
  what: StageRequest,
  slow: Stream,
  meanwhile: () => Promise<unknown> = () => Promise.resolve(),
): Promise<StageResult> {
  const dying: EventLog = {
    ...stores.events,
    append: async (runId, events, writer) => {
      if (events.some(({ body }) => body.type === 'stage-finished')) throw new Error('the worker dies here');
      return await stores.events.append(runId, events, writer);
    },
  };
  await expect(resultOf(what, { events: dying })).rejects.toThrow('the worker dies here');
  await meanwhile();
  return await resultOf(what, { backendFor: () => answering(slow) });
}

test.each(STREAMS)(
  'an agent that was stopped by its session file is over its budget for the next worker too (the %s is slow)',
  async (slow) => {
    agent = async (_call, _line, killed) => await killedSoon(killed);
    const { failure, usage } = await resultAfterDeath(request({ maxTokens: 250 }), slow);
    expect(failure?.code).toBe('agent/budget-tokens');
    expect(usage).toMatchObject({ inputTokens: 300, turns: 3 });
    expect(calls).toBe(1);
  },
);

test.each(STREAMS)(
  'the usage in the session file of an agent that answered counts for the next worker too (the %s is slow)',
  async (slow) => {
    agent = async (_call, line) => {
      await sleep(100);
      await line({ type: 'item.completed', item: { type: 'agent_message', text: 'done' } });
      await line({ type: 'turn.completed', usage: { input_tokens: 300, output_tokens: 0 } });
      return 0;
    };
    const { outcome, usage } = await resultAfterDeath(request({ maxTokens: 1_000 }), slow);
    expect(outcome).toBe('succeeded');
    expect(usage).toMatchObject({ inputTokens: 300, turns: 3 });
  },
);

test.each(STREAMS)(
  'an agent that failed when asked again has its own failure, not a failure of its follower (the %s is slow)',
  async (slow) => {
    agent = async (call, line) => {
      await sleep(100);
      if (call === 2) {
        await line({ type: 'turn.failed', error: { message: 'the server is away' } });
        return 1;
      }
      await line({ type: 'item.completed', item: { type: 'agent_message', text: 'no JSON' } });
      await line({ type: 'turn.completed', usage: { input_tokens: 300, output_tokens: 0 } });
      return 0;
    };
    const { failure, usage } = await resultAfterDeath(request({ maxTokens: 1_000 }, { outputSchema: SCHEMA }), slow);
    expect(failure).toMatchObject({ code: 'agent/api-error' });
    expect(usage).toMatchObject({ inputTokens: 600, turns: 6 });
    expect(calls).toBe(2);
  },
);

test('an answer that was asked for counts, even if other agents have used the rest of the run since', async () => {
  agent = async (call, line) => {
    await sleep(100);
    await line({
      type: 'item.completed',
      item: { type: 'agent_message', text: call === 2 ? '{"ok":true}' : 'no JSON' },
    });
    await line({ type: 'turn.completed', usage: { input_tokens: 300 * call, output_tokens: 0 } });
    return 0;
  };
  const none = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, turns: 0, costUsd: null };
  const told = { type: 'agent-usage', stage: 'other', execKey: 'other/0/1', ...none, inputTokens: 5_000 } as const;
  const others = (): Promise<unknown> =>
    stores.events.append(RUN, [{ id: EVENT_ID.agent('other/0/1', 1, 0), atMs: 1, body: told }]);
  const what = { ...request({}, { outputSchema: SCHEMA }), runBudget: { maxTokens: 5_000 } };
  const { outcome, usage } = await resultAfterDeath(what, 'agent', others);
  expect(outcome).toBe('succeeded');
  expect(usage).toMatchObject({ inputTokens: 600, turns: 6 });
  expect(calls).toBe(2);
});

test.each([
  ['still runs', async (killed: AbortSignal) => await killedSoon(killed)],
  [
    'ends after its follower',
    async () => {
      await followerEnded;
      // The ends of two commands are compared in milliseconds.
      return await sleep(20, 1);
    },
  ],
])(
  'an agent without a follower fails as agent/budget-unknown if it %s, also for the next worker',
  async (_how, ends) => {
    endsEarly = true;
    agent = async (_call, _line, killed) => await ends(killed);
    const what = request({ maxTokens: 1_000 });
    const { failure } = await resultAfterDeath(what, 'agent');
    expect(failure).toMatchObject({
      code: 'agent/budget-unknown',
      message: expect.stringContaining('what reads its session file ended with exit code 3') as string,
    });
  },
);
