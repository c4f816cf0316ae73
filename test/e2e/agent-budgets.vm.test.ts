/**
 * Budgets of agents that the mock agent plays, in real VMs: the worker reads their use from their session files, and
 * the budget ends them.
 */
import { expect, test } from 'vitest';
import type { Rig } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

/** Each `say` is a call of the model of 500 + 200 tokens. */
const CALLS = Array.from({ length: 8 }, (_, index) => [{ say: `call ${index + 1}` }, { sleep_ms: 4_000 }]).flat();
const SLOW = `'${JSON.stringify(CALLS)}'`;
const QUICK = `'${JSON.stringify([{ say: 'one' }, { say: 'two' }, { result: 'three' }])}'`;

const SPEC = `api_version: v1
kind: pipeline
name: budgets
sandbox: { memory_mb: 192 }
pipeline:
  boxes:
    - { name: turns, continue_on_error: true, prompt: Work., budget: { max_turns: 2 }, env: { MOCK_AGENT_SCRIPT: ${SLOW} } }
    - name: cost
      continue_on_error: true
      prompt: Work.
      llm: { provider: codex, price: { input: 100, output: 100 } }
      budget: { max_cost_usd: 0.1 }
      env: { MOCK_AGENT_SCRIPT: ${SLOW} }
    - name: tokens
      continue_on_error: true
      prompt: Work.
      budget: { max_tokens: 1400 }
      env: { MOCK_AGENT_SCRIPT: ${SLOW} }
    - name: within
      prompt: Work.
      llm: { provider: codex }
      budget: { max_turns: 3, max_tokens: 2100 }
      env: { MOCK_AGENT_SCRIPT: ${QUICK} }
  stages:
    - { type: fan_out, boxes: [turns, cost] }
    - { type: fan_out, boxes: [tokens, within] }
  output_box: within
`;

interface Budget {
  readonly limits: Readonly<Record<string, number>>;
  readonly used: Readonly<Record<string, number | null>> | null;
}

async function statusOf(
  rig: Rig,
  runId: string,
): Promise<{
  readonly budget: Budget | null;
  readonly stages: readonly {
    readonly id: string;
    readonly budget?: Budget;
    readonly items: { readonly agents?: unknown } | null;
  }[];
}> {
  return JSON.parse((await rig.cli('status', runId, '--json')).stdout) as Awaited<ReturnType<typeof statusOf>>;
}

interface Told {
  readonly id: string;
  readonly attempt: number;
  readonly state: string;
  readonly failure: { readonly code: string; readonly message: string } | null;
  readonly usage: Readonly<Record<string, number>>;
}

test('an agent over its budget is stopped at the call that crosses it; one that just keeps it answers', async () => {
  const rig = theRig();
  const run = await rig.cli('run', rig.spec('spec.yaml', SPEC), '--mock-agents', '--run-id', 'budgets', '--json');
  expect(run.code, run.stdout + run.stderr).toBe(0);
  const { stages } = JSON.parse(run.stdout) as { readonly stages: readonly Told[] };
  const told = Object.fromEntries(stages.map((stage) => [stage.id, stage]));
  expect(told).toMatchObject({
    turns: { failure: { code: 'agent/budget-turns' } },
    cost: { failure: { code: 'agent/budget-cost' }, usage: { turns: 2, inputTokens: 1_000, outputTokens: 400 } },
    tokens: { failure: { code: 'agent/budget-tokens' }, usage: { turns: 3, inputTokens: 1_500, outputTokens: 600 } },
    within: { state: 'succeeded', failure: null, usage: { turns: 3, inputTokens: 1_500, outputTokens: 600 } },
  });
  expect(told['cost']!.usage['costUsd']).toBeCloseTo(0.14);
  expect(told['cost']!.failure!.message).toContain('cost $0.1400; $0.1000 were left to it');
  expect(told['tokens']!.failure!.message).toContain('used 2100 tokens; 1400 were left to it');
  const budgets = (await statusOf(rig, 'budgets')).stages.map(({ id, budget }) => [id, budget] as const);
  expect(Object.fromEntries(budgets)).toMatchObject({
    turns: { limits: { maxTurns: 2 }, used: { turns: 3, tokens: 2_100 } },
    cost: { limits: { maxCostUsd: 0.1 }, used: { turns: 2, tokens: 1_400 } },
    within: { limits: { maxTurns: 3, maxTokens: 2_100 }, used: { turns: 3, tokens: 2_100 } },
  });
  expect((await rig.cli('status', 'budgets')).stdout).toContain('budget 2,100 of 2,100 tokens, 3 of 3 turns');
  // No further attempt was made.
  const started = (await rig.events('budgets')).filter(({ body }) => body.type === 'stage-started');
  expect(started).toHaveLength(4);
});

const TOGETHER = `api_version: v1
kind: pipeline
name: together
sandbox: { memory_mb: 192 }
budget: { max_tokens: 7000 }
parts:
  one:
    pipeline:
      boxes:
        - { name: work, prompt: Work., budget: { max_turns: 5 }, env: { MOCK_AGENT_SCRIPT: ${QUICK} } }
pipeline:
  boxes:
    - { name: each, uses: one, for_each: [1, 2], continue_on_error: true }
    - { name: left, continue_on_error: true, prompt: Work., env: { MOCK_AGENT_SCRIPT: ${SLOW} } }
    - { name: right, continue_on_error: true, prompt: Work., env: { MOCK_AGENT_SCRIPT: ${SLOW} } }
    - { name: late, continue_on_error: true, prompt: Work., retry: { max_attempts: 2 } }
    - { name: report, run: { program: echo, args: [fine] } }
  stages:
    - { type: box, name: each }
    - { type: fan_out, boxes: [left, right] }
    - { type: box, name: late }
    - { type: box, name: report }
`;

test('agents of a run share its budget: items, stages at once, and who comes too late', async () => {
  const rig = theRig();
  const run = await rig.cli('run', rig.spec('spec.yaml', TOGETHER), '--mock-agents', '--run-id', 'together', '--json');
  expect(run.code, run.stdout + run.stderr).toBe(0);
  const { stages } = JSON.parse(run.stdout) as { readonly stages: readonly Told[] };
  const told = Object.fromEntries(stages.map((stage) => [stage.id, stage]));
  const over = { state: 'failed', failure: { code: 'run/budget-tokens' } };
  expect(told).toMatchObject({ left: over, right: over, late: over, report: { state: 'succeeded' } });
  // Two items made three calls each, of 700 tokens. Either agent may make the four calls that are left, because a VM
  // may be late.
  const calls = ['left', 'right'].reduce((sum, id) => sum + (told[id]!.usage['turns'] ?? 0), 0);
  expect(calls).toBeGreaterThanOrEqual(5);
  expect(calls).toBeLessThanOrEqual(6);
  expect(told['late']!.failure!.message).toContain(
    `the agent of stage late did not start: agents of the run have used ${4_200 + calls * 700} tokens, of 7000 in its budget`,
  );
  const tokens = 4_200 + calls * 700;
  const status = await statusOf(rig, 'together');
  expect(status.budget).toMatchObject({ limits: { maxTokens: 7_000 }, used: { tokens } });
  const text = (await rig.cli('status', 'together')).stdout;
  expect(text).toMatch(new RegExp(`^budget +${tokens.toLocaleString('en-US')} of 7,000 tokens$`, 'm'));
  // Each item has a budget of its own.
  expect(status.stages.find(({ id }) => id === 'each')!.items!.agents).toMatchObject({
    attempts: 2,
    shown: ['each[0].work', 'each[1].work'].map((stage) => ({
      stage,
      state: 'succeeded',
      attempt: 1,
      usage: { turns: 3, inputTokens: 1_500, outputTokens: 600 },
      budget: { limits: { maxTurns: 5 }, used: { turns: 3, tokens: 2_100 } },
    })),
  });
  for (const item of [0, 1])
    expect(text).toContain(`✓ each[${item}].work  tokens 1,500 in, 600 out · $0.0030, budget 3 of 5 turns`);
  const started = (await rig.events('together')).flatMap(({ body }) =>
    body.type === 'stage-started' ? body.stage : [],
  );
  expect(started).toContain('report');
  expect(started).not.toContain('late');
});

const LOSSES = `api_version: v1
kind: pipeline
name: losses
sandbox: { memory_mb: 192 }
budget: { max_turns: 3 }
pipeline:
  boxes:
    - { name: work, prompt: Work., budget: { max_turns: 6 }, env: { MOCK_AGENT_SCRIPT: ${SLOW} } }
`;

test.each(['worker', 'VM'] as const)('the budget of a run outlives its %s', async (lost) => {
  const rig = theRig();
  const runId = `losses-of-${lost}`;
  await rig.launch(rig.spec('spec.yaml', LOSSES), runId, '--mock-agents');
  await rig.eventOf(runId, 'agent-usage');
  rig.kill(lost === 'worker' ? (await rig.liveStack()).workerPid : (await rig.keeperOf('work')).pid);
  expect((await rig.finish(runId)).outcome.state).toBe('failed');
  const events = await rig.events(runId);
  const calls = new Map<string, number>();
  for (const { body } of events)
    if (body.type === 'agent-usage') calls.set(body.execKey, Math.max(calls.get(body.execKey) ?? 0, body.turns));
  // The call that crosses the limit counts, with the calls of the attempt before. An agent without a worker continues
  // until there is a worker.
  const made = [...calls.values()].reduce((sum, turns) => sum + turns, 0);
  expect(made).toBeGreaterThanOrEqual(4);
  expect(made).toBeLessThanOrEqual(lost === 'VM' ? 4 : CALLS.length / 2);
  expect(calls.size).toBe(lost === 'worker' ? 1 : 2);
  const ends = events.flatMap(({ body }) => (body.type === 'stage-finished' ? [body.result.failure] : []));
  expect(ends).toMatchObject([
    {
      code: 'run/budget-turns',
      message: expect.stringContaining(`agents of the run have made ${made} calls of the model, of 3 in its budget`),
    },
  ]);
});
