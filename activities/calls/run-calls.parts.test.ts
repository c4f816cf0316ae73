/** Calls for stages within one item of a list: in the part of each item, and in a nested list of its own. */
import { beforeEach, describe, expect, test } from 'vitest';
import type { Plan } from '../../domain/plan/plan.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import type { StageFailure } from '../../domain/run/stage-result.ts';
import { checkExpressions } from '../../domain/language/expression/check.ts';
import { compileText } from '../../domain/language/load.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { as, eventOf, inVm, OUTPUT, own, partOf, useRunCalls } from '../../test/rig/runs/run-calls.ts';
import type { StageCall } from '../contract.ts';

const rig = useRunCalls();

describe('a part of each item', () => {
  const each = {
    list: { kind: 'inline', items: ['a', 'b'] },
    maxParallel: 1,
    failFast: false,
    allowFailures: 0,
  } as const;
  const path = (item: number, part = 'end') => [{ part, item }];
  const call: StageCall = { ...own, runId: 'many', stage: 'one', instance: path(1) };
  const shared = { runId: 'many', scope: '_shared', instance: path(1), generation: 0 };
  const refused = (message: string) => ({ code: 'call/refused', message: expect.stringContaining(message) });
  const FIRST = { kind: 'run-input' } as const;

  beforeEach(async () => {
    // `one` and `two` share a VM in each item, `one` decides `two`, and `end` passes on the result of `two`.
    const plan = planOf('before one two>one end>before,two after>end', { shared: 'one two' });
    const when = { source: 'stages.one.exit_code == 0', stages: ['one'], params: {} };
    const stages = plan.stages.map((stage): Plan['stages'][number] => {
      if (stage.id === 'one') return { ...stage, of: 'end', input: FIRST };
      if (stage.id === 'two') return { ...stage, of: 'end', when };
      if (stage.id !== 'end') return stage;
      const work = {
        kind: 'part',
        source: 'p',
        stages: ['one', 'two'],
        output: { kind: 'stage', stage: 'two' },
      } as const;
      return { ...stage, scope: null, each, work };
    });
    const scopes = plan.scopes.filter(({ id }) => id !== 'end');
    await rig.admit('many', {}, { ...plan, stages, scopes });
    await rig.putItems('many', 'items-end', each.list.items);
  });

  test('runs its stages in the VM of the item, and the first stage gets the item as its input', async () => {
    const lease = { vmKey: 'many/_shared/end~1/0' };
    expect(await as('items/known', () => inVm(rig.calls, { ...call, lease }))).toMatchObject({
      execKey: 'one/end~1/1',
      item: { index: 1, text: '"b"' },
      input: { kind: 'inline', text: '"b"' },
      lease,
    });
    expect(await as('items/known', () => inVm(rig.calls, { ...call, stage: 'two', lease }))).toMatchObject({
      execKey: 'two/end~1/1',
      item: { index: 1 },
      input: null,
    });
    expect(await as('items/known', () => rig.calls.acquire(shared))).toMatchObject({ instance: path(1) });
    expect(await as('items/known', () => rig.calls.release(shared))).toMatchObject({ instance: path(1) });
    const other = { vmKey: 'many/_shared/end~0/0' };
    await expect(as('items/known', () => inVm(rig.calls, { ...call, lease: other }))).rejects.toMatchObject(
      refused('VM'),
    );
  });

  test('ends within an item with the results of its stages, and begins without them', async () => {
    const end = { ...call, stage: 'end', upstream: { two: OUTPUT } };
    expect(await as('items/known', () => partOf(rig.calls, end))).toMatchObject({
      execKey: 'end/end~1/1',
      instance: path(1),
    });
    await expect(as('items/known', () => partOf(rig.calls, { ...end, upstream: {} }))).rejects.toMatchObject(
      refused('lacks'),
    );
    await expect(as('many', () => partOf(rig.calls, { ...end, instance: [] }))).rejects.toMatchObject(
      refused('no instance'),
    );
    const begin = { runId: 'many', stage: 'end', attempt: 1, upstream: {}, events: [] };
    // The attempts of an item determine how long its list may be.
    expect(await as('many', () => rig.calls.beginItems(begin))).toMatchObject({ mostItems: 10_000 });
    await expect(as('many', () => rig.calls.beginItems({ ...begin, upstream: { two: OUTPUT } }))).rejects.toMatchObject(
      refused('takes no data'),
    );
  });

  test('decides its conditions for each item', async () => {
    const upstream = { one: { state: 'succeeded', attempt: 1, output: null } };
    const decide = { runId: 'many', stage: 'two', instance: path(1), evaluation: 1, upstream, events: [] };
    await expect(as('items/other', () => rig.calls.evaluate(decide))).rejects.toMatchObject(refused('only that run'));
    expect(await as('items/known', () => rig.calls.evaluate(decide))).toMatchObject({
      stage: 'two',
      instance: path(1),
    });
    for (const instance of [[], path(2), path(0, 'one')])
      await expect(as('many', () => rig.calls.evaluate({ ...decide, instance }))).rejects.toMatchObject(refused(''));
  });

  test.each<[string, object]>([
    ['no item', { instance: [] }],
    ['an item beyond the list', { instance: path(2) }],
    ['an item of a stage without items', { instance: path(0, 'before') }],
    ['an item within an item', { instance: [...path(0), ...path(0)] }],
    ['a stage of the run in an item', { stage: 'before', lease: null }],
    ['more steps than there may be', { instance: Array.from({ length: 5 }, () => path(0)[0]) }],
    ['a step without a part', { instance: [null] }],
  ])('has no work for %s', async (_what, change) => {
    const lease = { vmKey: 'many/_shared/end~1/0' };
    await expect(
      as('items/known', () => inVm(rig.calls, { ...call, lease, ...change } as StageCall)),
    ).rejects.toMatchObject(refused(''));
  });

  test('uses neither the VM of another item nor a VM of the run in an item', async () => {
    for (const change of [{ instance: path(2) }, { instance: path(0, 'one') }, { scope: 'before' }, { instance: [] }])
      await expect(as('items/known', () => rig.calls.acquire({ ...shared, ...change }))).rejects.toMatchObject(
        refused(''),
      );
  });

  test('reports failures of its stages and of itself, and of no others', async () => {
    const failure: StageFailure = { code: 'stage/exit-nonzero', message: 'x', stderrTail: '' };
    const failed = (
      stage: string,
      execKey: string,
    ): { readonly runId: string; readonly events: readonly NewRunEvent[] } => ({
      runId: 'many',
      events: [eventOf(`stage/${execKey}/failed`, { type: 'stage-failed', stage, execKey, failure })],
    });
    for (const [stage, execKey] of [
      ['one', 'one/end~1/1'],
      ['end', 'end/end~1/1'],
      ['end', 'end/0/1'],
    ] as const)
      expect(await as('items/known', () => rig.calls.append(failed(stage, execKey)))).toMatchObject({ events: [{}] });
    for (const [stage, execKey] of [
      ['one', 'one/0/1'],
      ['one', 'one/end~1/9'],
      ['one', 'one/end~10000/1'],
      ['before', 'before/end~1/1'],
      ['two', 'one/end~1/1'],
    ] as const)
      await expect(as('items/known', () => rig.calls.append(failed(stage, execKey)))).rejects.toMatchObject(
        refused(''),
      );
  });
});

describe('a list within an item', () => {
  const TEXT = `kind: workflow
name: x
parts:
  p:
    workflow:
      output_step: end
      steps:
        - { name: list, run: { program: cat } }
        - { name: inner, for_each: stages.list.json, when: stages.list.exit_code == 0, run: { program: cat } }
        - { name: end, depends_on: [inner], run: { program: cat } }
workflow:
  steps: [{ name: outer, uses: p, for_each: [a, b] }]
`;
  const [inOuter, ofOther] = [[{ part: 'outer', item: 1 }], [{ part: 'outer', item: 0 }]];
  const inInner = (item: number) => [...inOuter, { part: 'outer.inner', item }];
  const call: StageCall = {
    ...own,
    runId: 'many',
    stage: 'outer.inner',
    instance: inInner(2),
    upstream: { 'outer.list': OUTPUT },
  };
  const begin = { ...call, instance: inOuter, events: [] };
  const refused = (message = '') => ({ code: 'call/refused', message: expect.stringContaining(message) });

  beforeEach(async () => {
    const { plan } = compileText(TEXT, 'x', { baseDir: '/', checkExpression: checkExpressions });
    await rig.admit('many', {}, plan!);
    await rig.putItems('many', 'items-outer', ['a', 'b']);
    await rig.putItems('many', 'items-outer.inner/outer~1', [7, 8, 9]);
  });

  test('runs its commands for nested windows of the run, up to the greatest depth of lists', async () => {
    for (const caller of ['many', 'items/known', 'items/2', 'items/3', 'items/4'])
      expect(await as(caller, () => inVm(rig.calls, call))).toMatchObject({
        execKey: 'outer.inner/outer~1~outer.inner~2/1',
        item: { index: 2, text: '9' },
        input: { kind: 'inline', text: '9' },
      });
    for (const caller of ['items/5', 'items/circle', 'items/of-other', 'items/below-other', 'items/none', 'other'])
      await expect(as(caller, () => inVm(rig.calls, call))).rejects.toMatchObject(
        refused("only that run's own workflow"),
      );
  });

  test('is begun, decided and ended in each enclosing item', async () => {
    expect(await as('items/known', () => rig.calls.beginItems(begin))).toMatchObject({
      execKey: 'outer.inner/outer~1/1',
      instance: inOuter,
      mostItems: 10_000,
      upstream: { 'outer.list': OUTPUT },
    });
    expect(await as('items/known', () => rig.calls.endItems(begin))).toMatchObject({ instance: inOuter });
    const upstream = { 'outer.list': { state: 'succeeded', attempt: 1, output: null } };
    const decide = { runId: 'many', stage: 'outer.inner', instance: inOuter, evaluation: 1, upstream, events: [] };
    expect(await as('items/known', () => rig.calls.evaluate(decide))).toMatchObject({ instance: inOuter });
    for (const caller of ['items/none', 'items/below-other', 'other']) {
      await expect(as(caller, () => rig.calls.beginItems(begin))).rejects.toMatchObject(refused());
      await expect(as(caller, () => rig.calls.endItems(begin))).rejects.toMatchObject(refused());
      await expect(as(caller, () => rig.calls.evaluate(decide))).rejects.toMatchObject(refused());
    }
    await expect(as('many', () => rig.calls.evaluate({ ...decide, instance: inInner(0) }))).rejects.toMatchObject(
      refused('have no condition'),
    );
  });

  test.each<[string, unknown]>([
    ['the run itself', []],
    ['an item that the list around it does not have', [{ part: 'outer', item: 2 }]],
    ['an item of itself', inInner(0)],
    ['an item of only its own name', [{ part: 'outer.inner', item: 0 }]],
  ])('has no list for %s', async (_what, instance) => {
    await expect(as('many', () => rig.calls.beginItems({ ...begin, instance }))).rejects.toMatchObject(refused());
  });

  test.each<[string, unknown]>([
    ['the item around it', inOuter],
    ['an item beyond its list', inInner(3)],
    ['an item of a list that has not begun', [...ofOther, { part: 'outer.inner', item: 0 }]],
    ['an item without the one around it', [{ part: 'outer.inner', item: 0 }]],
    ['the items in the other order', inInner(0).toReversed()],
  ])('has no command for %s', async (_what, instance) => {
    const other = { ...call, instance } as StageCall;
    await expect(as('items/2', () => inVm(rig.calls, other))).rejects.toMatchObject(refused());
  });
});
