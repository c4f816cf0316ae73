import { expect, test } from 'vitest';
import type { Evaluation } from '../../domain/delivery/decision.ts';
import { makeVersion, WEBHOOK } from '../../test/conformance/deployments.ts';
import { createMemoryTriggers } from '../../test/rig/access/memory-triggers.ts';
import { createTokenCaller } from '../../test/rig/access/token-caller.ts';
import type { EvaluateDelivery } from './evaluate-delivery.ts';
import { explainDelivery, type ExplainTools, type Explanation } from './explain-delivery.ts';

const EVALUATION: Evaluation = {
  holds: true,
  params: { number: '7' },
  input: null,
  keys: { dedupe: 'k', debounce: 'main', batch: null, rate: null, order: null },
};
const DEBOUNCE = { key: 'x', delayMs: 30_000, maxDelayMs: 300_000, take: 'last' } as const;
const REQUEST = {
  deployment: 'review',
  trigger: 'push',
  body: Buffer.from('{}'),
  contentType: 'application/json',
  headers: {},
};

async function explain(
  answer: Awaited<ReturnType<EvaluateDelivery>>,
  change: Partial<ExplainTools & typeof REQUEST> = {},
  pause: 'hold' | 'drop' | null = null,
): Promise<Explanation> {
  const triggers = createMemoryTriggers();
  const { deployments, deliveries } = triggers;
  await deployments.deploy(makeVersion('review', { triggers: [{ ...WEBHOOK, debounce: DEBOUNCE }] }), {
    isPaused: false,
  });
  if (pause !== null) await deployments.pause('review', pause, 1);
  const tools = { triggers, evaluate: () => Promise.resolve(answer), caller: { kind: 'owner' } as const, nowMs: 9 };
  const explained = await explainDelivery({ ...REQUEST, ...change }, { ...tools, ...change });
  expect(await deliveries.list({ limit: 9 })).toEqual([]);
  return explained;
}

test('an explanation has the evaluated expressions, the rules and the first decision', async () => {
  expect(await explain(EVALUATION)).toMatchObject({
    version: 1,
    evaluation: EVALUATION,
    problem: null,
    decision: { kind: 'hold', hold: 'debounce', waitMs: 30_000 },
    rules: { debounce: DEBOUNCE },
  });
  expect((await explain({ ...EVALUATION, holds: false })).decision).toMatchObject({
    kind: 'filter',
    code: 'trigger/no-match',
  });
  expect((await explain(EVALUATION, {}, 'drop')).decision).toMatchObject({ code: 'trigger/paused' });
  expect((await explain(EVALUATION, {}, 'hold')).decision).toMatchObject({ hold: 'paused' });
});

test('a payload without a value for an expression has a problem and no decision', async () => {
  const problem = { code: 'trigger/bad-payload', message: 'not JSON' };
  expect(await explain(problem)).toMatchObject({ evaluation: null, problem, decision: null });
});

test.each([
  ['an unknown deployment', { deployment: 'none' }, 'api/no-deployment'],
  ['a deployment of another token', { caller: createTokenCaller({ runs: ['web-*'] }) }, 'api/no-deployment'],
  ['an unknown trigger', { trigger: 'pull' }, 'trigger/unknown'],
  ['a run that a person asks for', { trigger: 'api' }, 'trigger/unknown'],
  ['a payload above 1 MiB', { body: Buffer.alloc(1024 * 1024 + 1) }, 'api/invalid-request'],
])('an explanation of %s is refused', async (_what, change, code) => {
  await expect(explain(EVALUATION, change)).rejects.toMatchObject({ code });
});
