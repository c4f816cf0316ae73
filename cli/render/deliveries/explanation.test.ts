import { expect, test } from 'vitest';
import type { ExplainedEvent, Explanation } from '../../../app/deliveries/explain-delivery.ts';
import { renderExplanation } from './explanation.ts';

const EVENT: ExplainedEvent = {
  cloudEvent: null,
  evaluation: {
    holds: true,
    params: { number: '7\u001B[31m' },
    input: null,
    keys: { dedupe: 'k', debounce: '7', batch: null, rate: '', order: 'main' },
  },
  problem: null,
  decision: { kind: 'hold', hold: 'debounce', waitMs: 30_000, code: null, message: null },
};
const EXPLANATION: Explanation = {
  deployment: 'review',
  trigger: 'push',
  version: 3,
  events: [EVENT],
  rules: {
    when: 'input.a == 1',
    dedupe: { key: null, forMs: 86_400_000 },
    debounce: { key: 'x', delayMs: 30_000, maxDelayMs: 300_000, take: 'last' },
    batch: null,
    rate: { key: null, limit: 5, perMs: 60_000, onLimit: 'drop' },
    order: { key: 'y' },
  },
};

test('an explanation has a line for each step and the decision, without control characters', () => {
  const lines = renderExplanation(EXPLANATION);
  expect(lines.join('\n')).not.toContain('\u001B');
  expect(lines.map((line) => line.slice(0, 11).trim())).toEqual([
    'trigger',
    'when',
    'param',
    'input',
    'dedupe',
    'debounce',
    'rate',
    'order',
    'decision',
  ]);
  expect(lines[0]).toBe('trigger    push of review, version 3');
  expect(lines[1]).toBe('when       input.a == 1 is true');
  expect(lines[5]).toContain('the last delivery for the key "7"');
  expect(lines.at(-1)).toBe('decision   held for debounce: the service looks again after 30.0 s');
});

test('a problem and a dropped delivery are shown with the reason', () => {
  const problem = { code: 'trigger/bad-payload', message: 'not JSON' };
  const renderLast = (change: Partial<ExplainedEvent>) =>
    renderExplanation({ ...EXPLANATION, events: [{ ...EVENT, ...change }] }).at(-1);
  expect(renderLast({ evaluation: null, decision: null, problem })).toBe(
    'decision   refused: trigger/bad-payload: not JSON',
  );
  const decision = { kind: 'filter', hold: null, waitMs: null, code: 'trigger/no-match', message: 'no' } as const;
  expect(renderLast({ decision })).toBe('decision   filtered: trigger/no-match: no');
});

test('each event of a batch is shown with its id and its decision', () => {
  const events = ['e-1', 'e-2'].map((id) => ({ ...EVENT, cloudEvent: { source: '/shop', id } }));
  const lines = renderExplanation({ ...EXPLANATION, events });
  expect(lines.filter((line) => /^(?:event|decision)/.test(line))).toEqual([
    'event      e-1 of /shop',
    'decision   held for debounce: the service looks again after 30.0 s',
    'event      e-2 of /shop',
    'decision   held for debounce: the service looks again after 30.0 s',
  ]);
  expect(renderExplanation({ ...EXPLANATION, events: [] }).at(-1)).toBe('decision   none: the batch has no event');
});
