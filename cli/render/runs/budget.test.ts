import { expect, test } from 'vitest';
import { NO_USE } from '../../../domain/agent/budget.ts';
import type { Plan } from '../../../domain/plan/plan.ts';
import { compileText } from '../../../domain/language/load.ts';
import {
  emptyView,
  type ItemAgent,
  type ItemsView,
  newStage,
  type RunView,
  type StageView,
} from '../../../store/run-view.ts';
import { renderBudget } from './budget.ts';
import { renderPlanGraph } from '../spec/plan-graph.ts';
import { toRunJson, withStageFacts } from '../../../app/json/run-json.ts';
import { renderStatus } from './status.ts';
import { PLAIN } from '../text/style.ts';

const USED = { ...NO_USE, inputTokens: 41_000, outputTokens: 200, turns: 3, costUsd: 0.31 };
const NO_ITEMS: ItemsView = { total: 0, running: 0, succeeded: 0, failed: 0, failures: [], open: {} };
const OPTIONS = { style: PLAIN, width: 200, nowMs: 10_000, advise: (text: string) => text, folder: '/runs/r' };

function run(stage: Partial<StageView>): RunView {
  return {
    ...emptyView('r'),
    budget: { limits: { maxTokens: 100_000, maxCostUsd: 2 }, ended: USED, open: {} },
    stages: [{ ...newStage('a'), ...stage }],
  };
}

test('a budget shows the used part before the limit, tokens first', () => {
  const limits = { maxCostUsd: 2, maxTokens: 100_000, maxTurns: 40 };
  expect(renderBudget({ limits, used: { tokens: 41_200, turns: 3, costUsd: 0.31 } })).toBe(
    '41,200 of 100,000 tokens, 3 of 40 turns, $0.31 of $2.00',
  );
  expect(renderBudget({ limits, used: null })).toBe('100,000 tokens, 40 turns, $2.00');
  // No stream has reported a cost so far, and an amount below a cent is not rounded away.
  const cheap = { maxCostUsd: 0.005 };
  expect(renderBudget({ limits: cheap, used: { tokens: 0, turns: 0, costUsd: null } })).toBe('$0.00 of $0.0050');
  expect(renderBudget({ limits: cheap, used: { tokens: 1, turns: 1, costUsd: null } })).toBe('$? of $0.0050');
});

test('status says what a run and its stages have used of their budgets', () => {
  const view = run({
    state: 'running',
    budget: { maxTurns: 5 },
    usage: { inputTokens: 900, outputTokens: 100, turns: 2 },
  });
  const lines = renderStatus(view, OPTIONS);
  expect(lines).toContain('budget   41,200 of 100,000 tokens, $0.31 of $2.00');
  expect(lines.join('\n')).toMatch(/^▶ a .*budget 2 of 5 turns$/m);
  expect(toRunJson(view)).toMatchObject({
    budget: {
      limits: { maxTokens: 100_000, maxCostUsd: 2 },
      used: { tokens: 41_200, turns: 3, costUsd: 0.31 },
    },
    stages: [{ budget: { limits: { maxTurns: 5 }, used: { tokens: 1_000, turns: 2, costUsd: null } } }],
  });
});

test('a stage that has not begun shows the budget of its plan; a stage with items shows the budget of each item', () => {
  const facts = new Map([['a', { when: null, finally: false, budget: { maxTurns: 5 }, hasItems: true }]]);
  const begun = run({ usage: { inputTokens: 5, outputTokens: 5, turns: 9 } });
  expect(renderStatus(begun, { ...OPTIONS, facts }).join('\n')).toContain('budget 5 turns for each item');
  expect(withStageFacts(toRunJson(begun), facts).stages[0]!.budget).toEqual({ limits: { maxTurns: 5 }, used: null });
  const waiting = new Map([['a', { when: null, finally: false, budget: { maxTurns: 5 } }]]);
  expect(renderStatus(run({}), { ...OPTIONS, facts: waiting }).join('\n')).toContain('budget 0 of 5 turns');
  expect(toRunJson({ ...run({}), stages: [newStage('b')] }).stages[0]).not.toHaveProperty('budget');
  expect(renderStatus(run({ state: 'skipped' }), { ...OPTIONS, facts: waiting }).join('\n')).not.toContain('5 turns');
});

test('each agent of an item has a line, at most 20, and as many in --json', () => {
  const agent = (item: number, state: ItemAgent['state'], budget: ItemAgent['budget'] = { maxTokens: 50_000 }) => ({
    name: `each[${item}].work`,
    execKey: `each.work/each~${item}/1`,
    attempt: item === 1 ? 2 : 1,
    state,
    ...(budget === undefined ? {} : { budget }),
    used: USED,
  });
  const items = (agents: ItemsView['agents']) => ({ ...NO_ITEMS, total: 1_000, agents });
  const few = run({
    items: items({
      attempts: 3,
      working: { b: agent(1, 'running') },
      ended: [{ ...agent(0, 'failed'), budget: { maxTurns: 2 } }],
    }),
  });
  expect(renderStatus(few, OPTIONS).filter((line) => line.includes('.work'))).toEqual([
    '▶ each[1].work  tokens 41,000 in, 200 out · $0.3100, budget 41,200 of 50,000 tokens, attempt 2',
    '✗ each[0].work  tokens 41,000 in, 200 out · $0.3100, budget 3 of 2 turns',
  ]);
  expect(renderStatus(few, OPTIONS).join('\n')).toContain('… and 1 more attempt of agents of a;');
  expect(toRunJson(few).stages[0]!.items!.agents).toEqual({
    attempts: 3,
    shown: [
      {
        stage: 'each[1].work',
        state: 'running',
        attempt: 2,
        usage: { inputTokens: 41_000, outputTokens: 200, cachedInputTokens: 0, turns: 3, costUsd: 0.31 },
        budget: { limits: { maxTokens: 50_000 }, used: { tokens: 41_200, turns: 3, costUsd: 0.31 } },
      },
      expect.objectContaining({ stage: 'each[0].work', state: 'failed' }),
    ],
  });
  const working = Object.fromEntries(Array.from({ length: 1_000 }, (_, item) => [item, agent(item, 'running')]));
  const many = run({ items: items({ attempts: 1_000, working, ended: [] }) });
  expect(renderStatus(many, OPTIONS).filter((line) => line.includes('.work'))).toHaveLength(20);
  expect(renderStatus(many, OPTIONS).join('\n')).toContain('… and 980 more attempts of agents of a;');
  expect(toRunJson(many).stages[0]!.items!.agents!.shown).toHaveLength(20);
  expect(toRunJson(run({ items: items(undefined) })).stages[0]!.items).not.toHaveProperty('agents');
});

test('the graph of a plan has its budgets', () => {
  const text = `kind: pipeline
name: main
budget: { max_tokens: 100000 }
pipeline: { boxes: [{ name: work, prompt: Work., budget: { max_turns: 40 } }] }
`;
  const { plan, diagnostics } = compileText(text, 'x.yaml', { baseDir: null });
  expect(diagnostics).toEqual([]);
  const graph = renderPlanGraph(plan as Plan, PLAIN);
  expect(graph).toMatch(/^ {2}work .* · budget 40 turns$/m);
  expect(graph).toContain('budget of all agents: 100,000 tokens\n');
});
