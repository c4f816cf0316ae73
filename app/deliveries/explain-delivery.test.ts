import { describe, expect, test } from 'vitest';
import type { Evaluation } from '../../domain/delivery/decision.ts';
import type { Trigger, WebhookSource } from '../../domain/delivery/trigger.ts';
import { evaluateTrigger } from '../../domain/language/expression/evaluate-trigger.ts';
import { makeVersion, WEBHOOK } from '../../test/conformance/deployments.ts';
import { createMemoryTriggers } from '../../test/rig/access/memory-triggers.ts';
import { createTokenCaller } from '../../test/rig/access/token-caller.ts';
import { createEvaluateDelivery, type EvaluateDelivery } from './evaluate-delivery.ts';
import { explainDelivery, type ExplainRequest, type ExplainTools, type Explanation } from './explain-delivery.ts';

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
  headers: new Map<string, readonly string[]>(),
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
  const decision = { kind: 'hold', hold: 'debounce', waitMs: 30_000 };
  expect(await explain(EVALUATION)).toMatchObject({
    version: 1,
    events: [{ cloudEvent: null, evaluation: EVALUATION, problem: null, decision }],
    rules: { debounce: DEBOUNCE },
  });
  const decide = async (...asked: Parameters<typeof explain>) => (await explain(...asked)).events[0]!.decision;
  expect(await decide({ ...EVALUATION, holds: false })).toMatchObject({ kind: 'filter', code: 'trigger/no-match' });
  expect(await decide(EVALUATION, {}, 'drop')).toMatchObject({ code: 'trigger/paused' });
  expect(await decide(EVALUATION, {}, 'hold')).toMatchObject({ hold: 'paused' });
});

test('a payload without a value for an expression has a problem and no decision', async () => {
  const problem = { code: 'trigger/bad-payload', message: 'not JSON' };
  expect((await explain(problem)).events).toMatchObject([{ evaluation: null, problem, decision: null }]);
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

describe('an event of CloudEvents', () => {
  const HEADERS = { specversion: '1.0', id: 'e-1', source: '/shop', type: 'order.paid' };
  const STRUCTURED = { ...HEADERS, datacontenttype: 'application/json', data: { order: 42 } };
  const PAID: Trigger = {
    ...WEBHOOK,
    name: 'paid',
    source: { ...(WEBHOOK.source as WebhookSource), format: 'cloudevents' },
    when: 'headers["ce-type"] == "order.paid"',
    params: { order: '${{ input.order }}' },
  };

  const explainEvent = async (body: unknown, change: Partial<ExplainRequest> = {}) => {
    const { deployments } = createMemoryTriggers();
    await deployments.deploy(makeVersion('review', { triggers: [PAID] }), { isPaused: false });
    const evaluate = createEvaluateDelivery({ evaluateTrigger: (asked) => Promise.resolve(evaluateTrigger(asked)) });
    const request = { ...REQUEST, trigger: 'paid', contentType: null, body: Buffer.from(JSON.stringify(body)) };
    const tools = { triggers: { deployments }, evaluate, caller: { kind: 'owner' } as const, nowMs: 9 };
    return (await explainDelivery({ ...request, ...change }, tools)).events;
  };
  const started = (id: string, order: string) => ({
    cloudEvent: { source: '/shop', id },
    evaluation: { holds: true, params: { order } },
    decision: { kind: 'start' },
  });

  test.each([null, 'application/cloudevents+json; charset=utf-8'])(
    'is read from its structured form with the type %j',
    async (contentType) => {
      expect(await explainEvent(STRUCTURED, { contentType })).toMatchObject([started('e-1', '42')]);
    },
  );

  test('is read from the headers and the data of its binary form', async () => {
    const headers = new Map(Object.entries(HEADERS).map(([name, value]) => [`ce-${name}`, [value]] as const));
    for (const contentType of [null, 'application/json'])
      expect(await explainEvent({ order: 42 }, { headers, contentType })).toMatchObject([started('e-1', '42')]);
  });

  test('has an explanation of its own in a batch', async () => {
    const other = { ...STRUCTURED, id: 'e-2', type: 'order.sent', data: { order: 43 } };
    for (const contentType of [null, 'application/cloudevents-batch+json'])
      expect(await explainEvent([STRUCTURED, other], { contentType })).toMatchObject([
        started('e-1', '42'),
        { cloudEvent: { id: 'e-2' }, decision: { kind: 'filter', code: 'trigger/no-match' } },
      ]);
    expect(await explainEvent([])).toEqual([]);
  });

  test.each([
    [{ ...STRUCTURED, id: '' }, null, 'api/invalid-request', 'the event has no attribute `id`'],
    [{ order: 42 }, 'application/json', 'api/unsupported-body', 'not an event of CloudEvents'],
    [[STRUCTURED, { ...STRUCTURED, specversion: '0.3' }], null, 'api/invalid-request', 'event 2 of the batch'],
  ])('is refused as the webhook refuses it: %j', async (body, contentType, code, message) => {
    await expect(explainEvent(body, { contentType })).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message) as string,
    });
  });
});
