import { describe, expect, test } from 'vitest';
import type { RunEventBody } from '../domain/run/event.ts';
import { EXIT_FAILURE, viewAfter } from '../test/rig/runs/run-events.ts';
import { stageResult } from '../test/rig/runs/stage-results.ts';
import type { ItemsView } from './run-view.ts';

function itemsAfter(bodies: readonly RunEventBody[]): ItemsView | null | undefined {
  return viewAfter(bodies).stages.find(({ id }) => id === 'each')?.items;
}

describe('items of a stage', () => {
  const name = (item: number, attempt = 1): { readonly stage: string; readonly execKey: string } => ({
    stage: 'each',
    execKey: `each/each~${item}/${attempt}`,
  });
  const finished = (item: number, outcome: 'succeeded' | 'failed', attempt = 1): RunEventBody => ({
    type: 'stage-finished',
    ...name(item, attempt),
    result: {
      ...name(item, attempt),
      instance: [{ part: 'each', item }],
      attempt,
      outcome,
      failure: outcome === 'failed' ? { code: 'stage/exit-nonzero', message: `item ${item}`, stderrTail: '' } : null,
      durationMs: 1,
      output: null,
      outputs: {},
      vm: null,
      usage: {},
      command: null,
    },
  });
  const begun = (item: number, attempt = 1): RunEventBody => ({
    type: 'stage-started',
    ...name(item, attempt),
    attempt,
  });
  const retrying = (item: number): RunEventBody => ({ type: 'stage-retrying', ...name(item), reason: 'x', delayMs: 0 });
  const of = (...bodies: readonly RunEventBody[]) => viewAfter(bodies);
  const stage: RunEventBody = { type: 'stage-started', stage: 'each', execKey: 'each/0/1', attempt: 1, items: 30 };

  test('hand what their agents took to their stage, with all attempts', () => {
    const spent = (event: RunEventBody, usage: Readonly<Record<string, number>>): RunEventBody =>
      event.type === 'stage-finished' ? { ...event, result: { ...event.result, usage } as typeof event.result } : event;
    const took = { inputTokens: 10, outputTokens: 4, turns: 1, costUsd: 0.5, vmCpuMs: 7 };
    const events = [
      stage,
      begun(0),
      spent(finished(0, 'failed'), took),
      begun(0, 2),
      spent(finished(0, 'succeeded', 2), took),
      begun(1),
      spent(finished(1, 'succeeded'), took),
    ];
    const usage = { inputTokens: 30, outputTokens: 12, turns: 3, costUsd: 1.5 };
    expect(of(...events).stages[0]?.usage).toEqual(usage);
    const end = finished(0, 'succeeded');
    const whole: RunEventBody =
      end.type === 'stage-finished'
        ? {
            ...end,
            execKey: 'each/0/1',
            result: { ...end.result, instance: [], usage: { items: 2 } } as typeof end.result,
          }
        : end;
    expect(of(...events, whole).stages[0]?.usage).toEqual({ ...usage, items: 2 });
  });

  test('are counted, and one that is tried again counts once', () => {
    const view = of(
      stage,
      begun(0),
      begun(1),
      begun(2),
      finished(0, 'succeeded'),
      finished(1, 'failed'),
      retrying(1),
      begun(1, 2),
    );
    expect(view.stages).toMatchObject([{ id: 'each', state: 'running', attempt: 1, execKey: 'each/0/1' }]);
    expect(view.stages[0]!.items).toMatchObject({ total: 30, running: 2, succeeded: 1, failed: 0, failures: [] });
  });

  test('that failed are named, the first twenty by number, and all are counted', () => {
    const items = Array.from({ length: 25 }, (_, item) => 24 - item);
    const { items: seen } = of(stage, ...items.flatMap((item) => [begun(item), finished(item, 'failed')])).stages[0]!;
    expect(seen).toMatchObject({ running: 0, failed: 25 });
    expect(seen!.failures.map(({ item }) => item)).toEqual(Array.from({ length: 20 }, (_, item) => item));
  });

  test('have VMs that a view leaves out', () => {
    const vm = { type: 'vm-starting', vmKey: 'r/each/each~0/0', scope: 'each', generation: 0 } as const;
    expect(of(stage, vm, { ...vm, vmKey: 'r/other/0', scope: 'other' }).vms.map(({ vmKey }) => vmKey)).toEqual([
      'r/other/0',
    ]);
  });
});

test('an item of a part ends with the stage that ends the part, and results of its other stages do not count', () => {
  const at = (stage: string, item: number): { readonly stage: string; readonly execKey: string } => ({
    stage,
    execKey: `${stage}/each~${item}/1`,
  });
  const started = (stage: string, item: number): RunEventBody => ({
    type: 'stage-started',
    attempt: 1,
    ...at(stage, item),
  });
  const ended = (stage: string, item: number): RunEventBody => ({
    type: 'stage-finished',
    ...at(stage, item),
    result: stageResult(at(stage, item).execKey),
  });
  const failed = (stage: string, item: number): RunEventBody => ({
    type: 'stage-failed',
    ...at(stage, item),
    failure: EXIT_FAILURE,
  });
  const begun = [
    { type: 'stage-started', stage: 'each', execKey: 'each/0/1', attempt: 1, items: 2 },
    started('each.a', 0),
    started('each.a', 1),
    ended('each.a', 0),
    failed('each.a', 1),
  ] as const satisfies readonly RunEventBody[];
  expect(itemsAfter(begun)).toMatchObject({ total: 2, running: 2, succeeded: 0, failed: 0 });
  expect(itemsAfter([...begun, started('each', 0), ended('each', 0), failed('each', 1)])).toMatchObject({
    total: 2,
    running: 0,
    succeeded: 1,
    failed: 1,
    failures: [{ item: 1, failure: EXIT_FAILURE }],
  });
});

test('lists within items are counted over all items around them, and nothing of them runs once their stage has ended', () => {
  const key = (path: string, attempt = 1): { readonly stage: string; readonly execKey: string } => ({
    stage: 'each.in',
    execKey: `each.in/${path}/${attempt}`,
  });
  const started = (path: string, items?: number, attempt = 1): RunEventBody => ({
    type: 'stage-started',
    attempt,
    ...key(path, attempt),
    ...(items === undefined ? {} : { items }),
  });
  const ended = (path: string, outcome: 'succeeded' | 'failed' | 'cancelled', attempt = 1): RunEventBody => ({
    type: 'stage-finished',
    ...key(path, attempt),
    result: stageResult(key(path, attempt).execKey, {
      outcome,
      failure: outcome === 'failed' ? EXIT_FAILURE : null,
    }),
  });
  const bodies: readonly RunEventBody[] = [
    { type: 'stage-started', stage: 'each', execKey: 'each/0/1', attempt: 1, items: 2 },
    started('each~0', 3),
    started('each~1', 2),
    started('each~0~each.in~0'),
    started('each~0~each.in~1'),
    started('each~0~each.in~2'),
    // The same number in another item.
    started('each~1~each.in~1'),
    ended('each~0~each.in~0', 'succeeded'),
    ended('each~0~each.in~1', 'failed'),
    started('each~0~each.in~1', undefined, 2),
  ];
  expect(itemsAfter(bodies)).toMatchObject({
    total: 2,
    running: 2,
    succeeded: 0,
    within: { 'each.in': { total: 5, running: 3, succeeded: 1, failed: 0 } },
  });
  expect(
    itemsAfter([
      ...bodies,
      ended('each~0~each.in~1', 'failed', 2),
      ended('each~0', 'failed'),
      {
        type: 'stage-finished',
        stage: 'each',
        execKey: 'each/0/1',
        result: stageResult('each/0/1', { outcome: 'cancelled' }),
      },
    ]),
  ).toMatchObject({ running: 0, within: { 'each.in': { total: 5, running: 0, succeeded: 1, failed: 1 } } });
});
