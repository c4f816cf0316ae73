import { describe, expect, test } from 'vitest';
import { PLAN_LIMITS, type Plan } from '../plan/plan.ts';
import { checkExpressions } from '../language/expression/check.ts';
import { compileText } from '../language/load.ts';
import { attemptsOfItem, itemPlanOf, mostItems, planAt, stageAt, listsOf } from './item-plan.ts';
import { type MachineStage, machinePlanOf } from './machine-plan.ts';

function planOf(part: string, each = 'for_each: [1, 2]'): Plan {
  const text = `kind: workflow
name: x
parts:
  p: ${part}
workflow:
  output_step: last
  steps:
    - { name: first, run: { program: "true" } }
    - { name: each, uses: p, ${each}, depends_on: [first], when: stages.first.exit_code == 0 }
    - { name: last, depends_on: [each], run: { program: "true" } }
`;
  const { plan, diagnostics } = compileText(text, 'x', { baseDir: '/', checkExpression: checkExpressions });
  expect(diagnostics).toEqual([]);
  return plan!;
}

const TWO = `{ workflow: { steps: [{ name: a, run: { program: "true" }, retry: { max_attempts: 2 } }, { name: b, depends_on: [a], when: "stages.a.exit_code == 0", run: { program: cat, stdin_from: a } }, { name: c, run: { program: "true" }, depends_on: [b] }] } }`;
const eachOf = (plan: Plan): MachineStage => machinePlanOf(plan).stages.find(({ id }) => id === 'each')!;

test('a run has only the stage with items, after what it waits for; an item has its stages, and last the stage that ends it', () => {
  const run = machinePlanOf(planOf(TWO));
  expect(run.stages.map(({ id, after }) => [id, after.map(({ stage }) => stage)])).toEqual([
    ['first', []],
    ['each', ['first']],
    ['last', ['each']],
  ]);
  expect(run.scopes).toEqual([{ id: '_shared', stages: ['first', 'last'] }]);
  expect(run.stages[1]).toMatchObject({ scope: null, condition: ['first'], takes: [] });
  const item = itemPlanOf(run.stages[1]!);
  expect(item.stages.map(({ id, after, takes }) => [id, after.map(({ stage }) => stage), takes.length])).toEqual([
    ['each.a', [], 0],
    ['each.b', ['each.a'], 1],
    ['each.c', ['each.b'], 0],
    ['each', ['each.c'], 1],
  ]);
  expect(item.stages.at(-1)).toMatchObject({ condition: null, scope: null });
  expect(item.stages.at(-1)).not.toHaveProperty('each');
  expect(item.scopes).toEqual([{ id: 'each._shared', stages: ['each.a', 'each.b', 'each.c'] }]);
  expect(item.output).toEqual({ kind: 'stage', stage: 'each' });
});

test('a stage is found in the instance of its owners, and in no other', () => {
  const run = machinePlanOf(planOf(TWO));
  const path = [{ part: 'each', item: 1 }];
  expect(stageAt(run, 'first', [])).toMatchObject({ id: 'first' });
  expect(stageAt(run, 'each', [])).toHaveProperty('each');
  expect(stageAt(run, 'each', path)).not.toHaveProperty('each');
  expect(stageAt(run, 'each.a', path)).toMatchObject({ retry: { maxAttempts: 2 } });
  for (const [id, at] of [
    ['each.a', []],
    ['first', path],
    ['each.a', [{ part: 'first', item: 1 }]],
    ['each.a', [...path, ...path]],
    ['nobody', path],
  ] as const)
    expect(stageAt(run, id, at)).toBeNull();
  expect(planAt(run, [])).toBe(run);
});

describe('the share of an item in a history', () => {
  const loop = (visits: number, attempts: number): string =>
    `{ pipeline: { boxes: [{ name: a, run: { program: "true" }, retry: { max_attempts: ${attempts} } }], stages: [{ type: loop, name: l, boxes: [a], until: "true", max_visits: ${visits} }] } }`;

  test.each<[string, number]>([
    // Attempts, with lost VMs, of three stages and of the end; a condition; four VMs that the stages share.
    [TWO, 5 + 4 + 4 + 4 + 1 + 4],
    // Two visits, two decisions of the loop, its end, and the end of the item.
    [loop(2, 1), 4 * 2 + 4 + 2 + 4],
  ])('%s', (part, attempts) => {
    expect(attemptsOfItem(eachOf(planOf(part)))).toBe(attempts);
  });

  test('bounds the items of a list, so that the windows of a run are not too many', () => {
    expect(mostItems(4, false)).toBe(10_000);
    expect(mostItems(300, false)).toBe(10_000);
    expect(mostItems(301, false)).toBe(9_000);
    expect(mostItems(PLAN_LIMITS.itemAttempts, false)).toBe(PLAN_LIMITS.itemWindows);
  });

  test('bounds the items of a list within an item, so that its windows fit into that of the item', () => {
    expect(mostItems(4, true)).toBe(10_000);
    expect(mostItems(5, true)).toBe(14 * 600);
    expect(mostItems(PLAN_LIMITS.itemAttempts, true)).toBe(PLAN_LIMITS.nestedWindows);
    const inner =
      '{ pipeline: { boxes: [{ name: a, for_each: [1], run: { program: x } }, { name: b, run: { program: x } }] } }';
    // A list counts its beginning, its end and most of its windows, not its items.
    expect(attemptsOfItem(eachOf(planOf(inner)))).toBe(2 + PLAN_LIMITS.nestedWindows + 4 + 4);
  });

  test('bounds the items of a list in a loop, whose visits have windows of their own', () => {
    expect(mostItems(4, false, 10)).toBe(10_000);
    expect(mostItems(4, false, 11)).toBe(9_090);
    expect(mostItems(PLAN_LIMITS.itemAttempts, false, 10)).toBe(100);
    expect(mostItems(4, false, PLAN_LIMITS.itemWindows)).toBe(100);
    expect(mostItems(4, false, PLAN_LIMITS.itemWindows + 1)).toBe(0);
    const text = (items: number): string =>
      `kind: pipeline\nname: x\npipeline:\n  boxes: [{ name: a, run: { program: x }, for_each: [${'1,'.repeat(items - 1)}1] }]\n  stages: [{ type: loop, name: l, boxes: [a], until: "true", max_visits: 100 }]\n`;
    const messagesOf = (items: number): readonly string[] =>
      compileText(text(items), 'x', { baseDir: '/', checkExpression: checkExpressions }).diagnostics.map(
        ({ message }) => message,
      );
    expect(messagesOf(1_000)).toEqual([]);
    expect(messagesOf(1_001)).toEqual([
      '`for_each` of "a" has 1001 items; at most 1000 are allowed if one item may take 4 attempts of its stages and each of 100 visits has its own list',
    ]);
  });

  test('bounds a list that is written in the spec', () => {
    const text = (items: number): string =>
      `kind: pipeline\nname: x\nparts:\n  p: ${loop(40, 50)}\npipeline:\n  boxes: [{ name: each, uses: p, for_each: [${'1,'.repeat(items - 1)}1] }]\n`;
    const codesOf = (items: number): readonly string[] =>
      compileText(text(items), 'x', { baseDir: '/', checkExpression: checkExpressions }).diagnostics.map(
        ({ code, message }) => `${code}: ${message}`,
      );
    expect(codesOf(1_000)).toEqual([]);
    expect(codesOf(1_001)).toEqual([
      'spec/too-large: `for_each` of "each" has 1001 items; at most 1000 are allowed if one item may take 2168 attempts of its stages',
    ]);
  });
});

test('all stages with items are found', () => {
  expect(listsOf(machinePlanOf(planOf(TWO))).map(({ stage }) => stage.id)).toEqual(['each']);
  const inner = '{ pipeline: { boxes: [{ name: a, for_each: [1], run: { program: x } }] } }';
  expect(
    listsOf(machinePlanOf(planOf(inner))).map(({ stage, around }) => [stage.id, ...around.map(({ id }) => id)]),
  ).toEqual([['each'], ['each.a', 'each']]);
});
