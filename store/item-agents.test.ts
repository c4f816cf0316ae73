import { expect, test } from 'vitest';
import type { BudgetPlan } from '../domain/plan/plan.ts';
import type { RunEventBody } from '../domain/run/event.ts';
import { stageResult } from '../test/rig/runs/stage-results.ts';
import { listAgents } from './item-agents.ts';
import { project } from './projection.ts';
import { emptyView, type ItemsView, SHOWN_AGENTS } from './run-view.ts';

const BUDGET: BudgetPlan = { maxTokens: 1_000 };

/** Returns the key of an agent's attempt; by default the agent `work` of the innermost part. */
function key(
  path: string,
  attempt = 1,
  stage = `${path.split('~').at(-2)}.work`,
): { readonly stage: string; readonly execKey: string } {
  return { stage, execKey: `${stage}/${path}/${attempt}` };
}

function started(path: string, attempt = 1, budget: BudgetPlan | null = BUDGET): RunEventBody {
  return { type: 'stage-started', attempt, ...key(path, attempt), ...(budget === null ? {} : { budget }) };
}

function used(path: string, tokens: number, attempt = 1): RunEventBody {
  const use = { inputTokens: tokens, outputTokens: 0, cachedInputTokens: 0, turns: 1, costUsd: null };
  return { type: 'agent-usage', ...key(path, attempt), ...use };
}

function ended(path: string, outcome: 'succeeded' | 'failed', attempt = 1, stage?: string): RunEventBody {
  const name = key(path, attempt, stage);
  const failure =
    outcome === 'failed' ? ({ code: 'agent/budget-tokens', message: 'over', stderrTail: '' } as const) : null;
  const result = stageResult(name.execKey, { failure });
  return { type: 'stage-finished', ...name, result };
}

function itemsAfter(...bodies: readonly RunEventBody[]): ItemsView {
  const list: RunEventBody = { type: 'stage-started', stage: 'each', execKey: 'each/0/1', attempt: 1, items: 3 };
  const view = [list, ...bodies]
    .map((body, index) => ({ seq: index + 1, id: `e${index}`, atMs: index, body }))
    .reduce(project, emptyView('r'));
  return view.stages.find(({ id }) => id === 'each')!.items!;
}

/** Name, state and tokens of those that are shown. */
function shownAfter(...bodies: readonly RunEventBody[]): readonly unknown[] {
  return listAgents(itemsAfter(...bodies).agents!).map(({ name, state, used: { inputTokens } }) => [
    name,
    state,
    inputTokens,
  ]);
}

test('running agents are listed first, then ended agents, the nearest to its limit first', () => {
  const events = [
    ...['each~0', 'each~1', 'each~2', 'each~10'].map((path) => started(path)),
    used('each~0', 300),
    used('each~1', 900),
    used('each~10', 10),
    used('each~0', 400),
    ended('each~0', 'succeeded'),
    ended('each~1', 'failed'),
    // A stage of the item that is not an agent.
    { type: 'stage-started', attempt: 1, ...key('each~0', 1, 'each.test') },
    ended('each~0', 'succeeded', 1, 'each.test'),
  ] as const satisfies readonly RunEventBody[];
  expect(shownAfter(...events)).toEqual([
    ['each[2].work', 'running', 0],
    ['each[10].work', 'running', 10],
    ['each[1].work', 'failed', 900],
    ['each[0].work', 'succeeded', 400],
  ]);
  const agents = itemsAfter(...events).agents!;
  expect(agents.attempts).toBe(4);
  expect(agents.ended[0]).toMatchObject({ budget: BUDGET, attempt: 1, execKey: 'each.work/each~1/1' });
});

test('an attempt that follows another of its item, whose VM was lost or which failed, replaces it', () => {
  expect(shownAfter(started('each~0'), used('each~0', 700), started('each~0', 2), used('each~0', 900))).toEqual([
    ['each[0].work', 'running', 0],
  ]);
  const again = [
    started('each~0'),
    used('each~0', 700),
    ended('each~0', 'failed'),
    started('each~0', 2),
    used('each~0', 20, 2),
  ];
  expect(shownAfter(...again)).toEqual([['each[0].work', 'running', 20]]);
  expect(itemsAfter(...again).agents!.attempts).toBe(2);
});

test('an agent without a budget counts once it has used something, after those with one', () => {
  expect(itemsAfter(started('each~0', 1, null)).agents).toBeUndefined();
  expect(
    shownAfter(
      started('each~0', 1, null),
      used('each~0', 5_000),
      ended('each~0', 'succeeded'),
      started('each~1~each.in~4'),
      used('each~1~each.in~4', 1),
      ended('each~1~each.in~4', 'succeeded'),
    ),
  ).toEqual([
    ['each[1].in[4].work', 'succeeded', 1],
    ['each[0].work', 'succeeded', 5_000],
  ]);
});

test('a view of 1,000 items has the items nearest to their limits, and counts the others', () => {
  const agents = Array.from({ length: 1_000 }, (_, item) => [
    started(`each~${item}`),
    used(`each~${item}`, (item * 7) % 1_000),
    ended(`each~${item}`, 'succeeded'),
  ]).flat();
  const { attempts, working, ended: kept } = itemsAfter(...agents).agents!;
  expect(attempts).toBe(1_000);
  expect(working).toEqual({});
  expect(kept.map(({ used: { inputTokens } }) => inputTokens)).toEqual(
    Array.from({ length: SHOWN_AGENTS }, (_, index) => 999 - index),
  );
});

test('no agent of a list is running once its stage has ended', () => {
  const end = ended('0', 'failed', 1, 'each');
  expect(shownAfter(started('each~0'), used('each~0', 10), end)).toEqual([['each[0].work', 'cancelled', 10]]);
});
