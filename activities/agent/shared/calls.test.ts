/**
 * An agent without a command line: the test makes its calls of a model. Budget, provider, price and redaction need no
 * VM.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type AgentSaying, type AgentUsage, NO_USAGE } from '../../../agents/stream.ts';
import type { OverBudget } from '../../../domain/agent/limits.ts';
import type { AgentWork, BudgetPlan, LlmPlan } from '../../../domain/plan/plan.ts';
import { EVENT_ID } from '../../../domain/run/event-id.ts';
import type { RunEventBody } from '../../../domain/run/event.ts';
import { createRedactor } from '../../../domain/security/redactor.ts';
import { openStores } from '../../../store/open-stores.ts';
import type { Stores } from '../../../store/stores.ts';
import { plainRequest, plainStage } from '../../../test/rig/runs/mock-worker.ts';
import type { StageRequest } from '../../calls/requests.ts';
import { checkRun, leftAfter, shareOfRun, findUsedUpLimit } from './account.ts';
import { openLedger, RunBudgetFailure } from './ledger.ts';
import { requireValidLogin } from './login.ts';
import { BudgetMeter } from './meter.ts';
import { requireModelServer, ModelServerFailure } from './model-server.ts';
import { warnOfUnpricedModels } from './price.ts';
import { eventBodyOf, hasEvent, redactOutcome } from './sayings.ts';

const RUN = 'run-1';
const SECRET = 'sk-chat-4c6e2f90';
const LLM: LlmPlan = {
  provider: 'custom',
  model: 'small',
  baseUrl: 'http://localhost:8123/v1',
  apiKeyEnv: 'KEY',
  credentialProxy: false,
  // A call that reads 100 tokens and writes 10 costs 0.12 dollars.
  price: { inputUsd: 1_000, outputUsd: 2_000 },
};
const CALL = { inputTokens: 100, outputTokens: 10 };

let stateDir: string;
let stores: Stores;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-agent-calls-'));
  stores = await openStores({ stateDir });
});

afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

interface Chat {
  readonly stage: string;
  readonly runBudget?: BudgetPlan;
  readonly budget?: BudgetPlan;
  readonly llm?: LlmPlan;
}

function requestOf({ stage, runBudget, budget, llm = LLM }: Chat): StageRequest {
  const base = { kind: 'agent', mode: 'task', prompt: 'Think.', skills: [], env: [], messaging: false } as const;
  const work: AgentWork = { ...base, llm, ...(budget === undefined ? {} : { budget }) };
  const plain = plainRequest(RUN, plainStage(stage, stage, ['none'], { work }));
  const sandbox = { ...plain.scope.sandbox, egress: { allow: 'any', deny: [], services: [] } } as const;
  return { ...plain, scope: { ...plain.scope, sandbox }, ...(runBudget === undefined ? {} : { runBudget }) };
}

interface Ended {
  readonly calls: number;
  readonly used: AgentUsage;
  readonly over: OverBudget | null;
}

/**
 * Calls the model until it has answered, or until a budget ends the agent. Each call is appended to the log before it
 * is counted.
 */
async function chat(
  of: Chat,
  answers: number,
  beforeCall = async (_call: number): Promise<void> => {},
): Promise<Ended> {
  const { runId, execKey, stage, runBudget } = requestOf(of);
  const ledger = await openLedger(stores, { runId, execKey, stage, runBudget });
  const account = { work: stage.work as AgentWork, ledger };
  const followed = ledger?.follow(new AbortController().signal);
  const redactor = createRedactor([{ name: 'KEY', value: SECRET }]);
  try {
    const meter = new BudgetMeter(
      account.work,
      leftAfter(account, NO_USAGE) ?? {},
      () => undefined,
      shareOfRun(account, NO_USAGE),
    );
    let calls = 0;
    let so: AgentUsage = NO_USAGE;
    while (calls < answers && meter.over === null && findUsedUpLimit(account, meter.used, []) === null) {
      calls += 1;
      await beforeCall(calls);
      so = { ...so, inputTokens: calls * CALL.inputTokens, outputTokens: calls * CALL.outputTokens, turns: calls };
      const sayings: readonly AgentSaying[] = [
        { kind: 'text', text: `The key is ${SECRET}.` },
        { kind: 'usage', usage: so },
      ];
      const options = {
        stage: stage.id,
        execKey,
        redactor,
        used: (usage: AgentUsage, isLast: boolean) => meter.count(usage, isLast),
      };
      const events = sayings.filter(hasEvent).map((saying, index) => ({
        id: EVENT_ID.agent(execKey, calls, index),
        atMs: calls,
        body: eventBodyOf(options, saying, calls === answers),
      }));
      await stores.events.append(RUN, events);
      await checkRun(account, meter, events.at(-1)!.id);
    }
    return { calls, used: meter.used, over: meter.over ?? findUsedUpLimit(account, meter.used, []) };
  } finally {
    await followed?.stop();
  }
}

async function told(): Promise<readonly RunEventBody[]> {
  const bodies: RunEventBody[] = [];
  for await (const { body } of stores.reader.read(RUN, 0, { output: false })) bodies.push(body);
  return bodies;
}

test('each call is in the log with the price of the plan, and without the secret', async () => {
  const { calls, used, over } = await chat({ stage: 'one' }, 2);
  expect([calls, over]).toEqual([2, null]);
  expect(used).toMatchObject({ inputTokens: 200, outputTokens: 20, turns: 2 });
  expect(used.costUsd).toBeCloseTo(0.24);
  const bodies = await told();
  expect(bodies.map(({ type }) => type)).toEqual(['agent-text', 'agent-usage', 'agent-text', 'agent-usage']);
  expect(bodies[0]).toMatchObject({ stage: 'one', text: 'The key is [redacted].' });
  expect((bodies[3] as AgentUsage).costUsd).toBeCloseTo(0.24);
  expect(JSON.stringify(bodies)).not.toContain(SECRET);
});

test.each([
  [{ maxTurns: 2 }, 2, 'has made 2 calls of the model, of 2 in its budget'],
  [{ maxTokens: 250 }, 3, 'used 330 tokens; 250 were left to it'],
  [{ maxCostUsd: 0.2 }, 2, 'cost $0.2400; $0.2000 were left to it'],
])('a budget of %j ends the agent of a stage after %i calls', async (budget, most, words) => {
  const { calls, over } = await chat({ stage: 'one', budget }, 9);
  expect([calls, over?.words]).toEqual([most, words]);
});

test('the budget of a run counts the calls of all its agents, and refuses an agent that starts after them', async () => {
  const runBudget = { maxTurns: 3 };
  // Both agents make a call before either makes its second call.
  let release!: () => void;
  const both = new Promise<void>((resolve) => (release = resolve));
  let waiting = 0;
  const beforeCall = async (call: number): Promise<void> => {
    if (call !== 2) return;
    waiting += 1;
    if (waiting === 2) release();
    await both;
  };
  const ended = await Promise.all(['one', 'two'].map((stage) => chat({ stage, runBudget }, 9, beforeCall)));
  expect(ended.map(({ calls }) => calls).toSorted()).toEqual([2, 2]);
  expect(ended.map(({ over }) => over?.code)).toEqual(['run/budget-turns', 'run/budget-turns']);
  const late = chat({ stage: 'three', runBudget }, 9);
  await expect(late).rejects.toThrow(RunBudgetFailure);
  await expect(late).rejects.toMatchObject({ code: 'run/budget-turns' });
});

test('a server of the model that refuses connections, or a login that has ended, refuses the agent', async () => {
  const request = requestOf({ stage: 'one' });
  const life = { ended: new AbortController().signal };
  const demand = (isClosed: boolean): Promise<void> =>
    requireModelServer({
      deps: { events: stores.events, isPortClosed: async (port) => isClosed && port === 8123 },
      request,
      life,
      backend: { name: 'none' },
    });
  await expect(demand(true)).rejects.toThrow(ModelServerFailure);
  await demand(false);
  const deps = { events: stores.events, now: () => 1_000_000 };
  await requireValidLogin(deps, request, { owner: 'Codex', endsAtMs: 2_000_000 });
  await expect(requireValidLogin(deps, request, { owner: 'Codex', endsAtMs: 1_000_000 })).rejects.toMatchObject({
    code: 'host/login-expires',
  });
});

test('a model without a price is one warning, and the outcome is without secrets', async () => {
  const { price: _, ...llm } = LLM;
  const request = requestOf({ stage: 'one', llm });
  const work = request.stage.work as AgentWork;
  const redactor = createRedactor([{ name: 'KEY', value: SECRET }]);
  const outcome = redactOutcome(
    {
      sessionId: null,
      model: 'small',
      hasEnded: true,
      text: `{"key":"${SECRET}"}`,
      failure: { code: 'agent/api-error', message: `the server refuses ${SECRET}` },
      usage: NO_USAGE,
      isUsageFinal: true,
      unpricedModels: ['small'],
    },
    redactor,
  );
  expect(outcome).toMatchObject({
    text: '{"key":"[redacted]"}',
    textRedacted: { variables: ['KEY'], breaksJson: false },
    failure: { message: 'the server refuses [redacted]' },
  });
  const deps = { events: stores.events, now: () => 1 };
  await warnOfUnpricedModels(deps, request, work, outcome);
  await warnOfUnpricedModels(deps, request, work, outcome);
  const bodies = await told();
  expect(bodies).toEqual([
    {
      type: 'notice',
      level: 'warning',
      message: expect.stringContaining('the cost of the agent of stage one is unknown'),
    },
  ]);
});
