/** Calls for one item of a stage's list: the allowed callers, and the existing items. */
import { beforeEach, describe, expect, test } from 'vitest';
import { planOf } from '../../test/machine/plan-of.ts';
import { as, eventOf, inVm, own, useRunCalls } from '../../test/rig/runs/run-calls.ts';
import type { StageCall } from '../contract.ts';

const rig = useRunCalls();

describe('a stage with items', () => {
  const each = {
    list: { kind: 'inline', items: ['a', { b: 1 }] },
    maxParallel: 1,
    failFast: false,
    allowFailures: 0,
  } as const;
  const item = (index: number) => [{ part: 'own', item: index }];
  const call: StageCall = { ...own, runId: 'many', instance: item(1) };
  const scope = { runId: 'many', scope: 'own', instance: item(1), generation: 0 };
  const refused = (message: string) => ({ code: 'call/refused', message: expect.stringContaining(message) });

  beforeEach(async () => {
    const plan = planOf('own:2 next>own');
    const stages = plan.stages.map((stage) => (stage.id === 'own' ? { ...stage, each } : stage));
    await rig.admit('many', {}, { ...plan, stages });
    await rig.putItems('many', 'items-own', each.list.items);
  });

  test('is called for one item by a child workflow of the run, and the item is its input', async () => {
    for (const caller of ['many', 'items/known'])
      expect(await as(caller, () => inVm(rig.calls, { ...call, attempt: 2, generation: 1 }))).toMatchObject({
        execKey: 'own/own~1/2',
        instance: item(1),
        item: { index: 1, text: '{"b":1}' },
        input: { kind: 'inline', text: '{"b":1}' },
        stage: { input: { kind: 'run-input' } },
      });
    expect(await as('items/known', () => rig.calls.release(scope))).toMatchObject({ instance: item(1) });
    const retrying = { stage: 'own', execKey: 'own/own~1/1', reason: 'x', delayMs: 0 };
    const sent = [eventOf('stage/own/own~1/1/retrying', { type: 'stage-retrying', ...retrying })];
    expect(await as('items/known', () => rig.calls.append({ runId: 'many', events: sent }))).toMatchObject({
      events: [{ id: 'stage/own/own~1/1/retrying' }],
    });
  });

  test('does no work for a workflow whose parent on the server is another run, or missing', async () => {
    for (const caller of ['items/other', 'items', 'other', null])
      await expect(as(caller, () => inVm(rig.calls, call))).rejects.toMatchObject(
        refused("only that run's own workflow"),
      );
    await expect(as('items/known', () => inVm(rig.calls, own))).rejects.toMatchObject(refused('which only that run'));
    await expect(as('items/other', () => rig.calls.append({ runId: 'many', events: [] }))).rejects.toMatchObject(
      refused(''),
    );
  });

  test("is begun and ended only by the run's own workflow", async () => {
    const begin = { runId: 'many', stage: 'own', attempt: 1, upstream: {}, events: [] };
    expect(await as('many', () => rig.calls.beginItems(begin))).toMatchObject({ execKey: 'own/0/1', each });
    for (const caller of ['items/known', 'other']) {
      await expect(as(caller, () => rig.calls.beginItems(begin))).rejects.toMatchObject(refused(''));
      await expect(as(caller, () => rig.calls.endItems(begin))).rejects.toMatchObject(refused(''));
    }
    await expect(as('many', () => rig.calls.beginItems({ ...begin, attempt: 2 }))).rejects.toMatchObject(
      refused('no attempt 2'),
    );
    await expect(as('many', () => rig.calls.endItems({ ...begin, stage: 'next' }))).rejects.toMatchObject(
      refused('not done for items'),
    );
  });

  test.each<[string, unknown]>([
    ['no item', []],
    ['an item beyond the list', item(2)],
    ['an item beyond all lists', item(10_000)],
    ['half an item', item(0.5)],
    ['an item of another stage', [{ part: 'next', item: 0 }]],
    ['an item within an item', [...item(0), ...item(0)]],
    ['nothing at all', undefined],
  ])('has no work for %s', async (_what, instance) => {
    const instanced = { ...call, instance } as StageCall;
    await expect(as('many', () => inVm(rig.calls, instanced))).rejects.toMatchObject(refused(''));
  });

  test.each<[string, string]>([
    ['beyond the attempts of an item', 'own/own~0/9'],
    ['of an item within an item', 'own/own~0~own~0/1'],
    ['of an item of another stage', 'own/next~0/1'],
    ['of a second command', 'own/own~0/1/2'],
  ])('rejects events %s', async (_what, execKey) => {
    const event = eventOf(`stage/${execKey}/retrying`, {
      type: 'stage-retrying',
      stage: 'own',
      execKey,
      reason: 'x',
      delayMs: 0,
    });
    await expect(as('items/known', () => rig.calls.append({ runId: 'many', events: [event] }))).rejects.toMatchObject(
      refused(''),
    );
  });
});

describe('a stage with items in a loop', () => {
  const each = {
    list: { kind: 'inline', items: ['a', 'b'] },
    maxParallel: 1,
    failFast: false,
    allowFailures: 0,
  } as const;
  const path = (item: number, attempt: number) => [{ part: 'own', item, attempt }];
  const call: StageCall = { ...own, runId: 'again', instance: path(1, 2) };
  const refused = (message: string) => ({ code: 'call/refused', message: expect.stringContaining(message) });

  beforeEach(async () => {
    const plan = planOf('own next>own');
    const stages = plan.stages.map((stage) => (stage.id === 'own' ? { ...stage, each, visits: 2 } : stage));
    await rig.admit('again', {}, { ...plan, stages });
    await rig.putItems('again', 'items-own~2', each.list.items);
  });

  test('has a list for each visit, whose items have its number in their names', async () => {
    const begin = { runId: 'again', stage: 'own', attempt: 2, upstream: {}, events: [] };
    expect(await as('again', () => rig.calls.beginItems(begin))).toMatchObject({ execKey: 'own/0/2', lists: 2 });
    expect(await as('again', () => inVm(rig.calls, call))).toMatchObject({
      execKey: 'own/own~1.2/1',
      instance: path(1, 2),
      input: { kind: 'inline', text: '"b"' },
    });
  });

  test('has no more lists than visits, and no items of a list that no visit has begun', async () => {
    const begin = { runId: 'again', stage: 'own', attempt: 3, upstream: {}, events: [] };
    await expect(as('again', () => rig.calls.beginItems(begin))).rejects.toMatchObject(refused('no attempt 3'));
    for (const instance of [path(0, 3), path(0, 1), path(2, 2), path(0, 1.5), path(0, 0)])
      await expect(as('again', () => inVm(rig.calls, { ...call, instance }))).rejects.toMatchObject(refused(''));
    const retrying = {
      type: 'stage-retrying',
      stage: 'own',
      execKey: 'own/own~0.3/1',
      reason: 'x',
      delayMs: 0,
    } as const;
    const events = [eventOf('stage/own/own~0.3/1/retrying', retrying)];
    await expect(as('again', () => rig.calls.append({ runId: 'again', events }))).rejects.toMatchObject(refused(''));
  });
});
