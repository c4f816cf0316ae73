/**
 * Agents of items, with their use and their budgets: all running agents, and the ended agents nearest to their limits.
 */
import { findLargestUse, type ModelUse, NO_USE, shareOfBudget } from '../domain/agent/budget.ts';
import type { BudgetPlan } from '../domain/plan/plan.ts';
import { parseExecKey } from '../domain/run/attempt.ts';
import { type InstancePath, formatInstance, formatStageName } from '../domain/run/instance.ts';
import type { RunEventBody } from '../domain/run/event.ts';
import type { StageResult } from '../domain/run/stage-result.ts';
import { type ItemAgent, type ItemAgentsView, SHOWN_AGENTS } from './run-view.ts';
import { valueAt } from '../domain/units/mapping.ts';

const BY_NAME = new Intl.Collator('en', { numeric: true });
const NO_AGENTS: ItemAgentsView = { attempts: 0, working: {}, ended: [] };

/** @param instance  the instance of an item, or of an item within it */
export function withItemAgent(
  view: ItemAgentsView | undefined,
  instance: InstancePath,
  body: RunEventBody,
): ItemAgentsView | undefined {
  // A budget shows that the stage is an agent; an agent without a budget is known by its use.
  if (body.type === 'stage-started')
    return body.budget === undefined ? view : withWorking(view, instance, body, { budget: body.budget });
  if (body.type === 'agent-usage') {
    const { inputTokens, outputTokens, cachedInputTokens, turns, costUsd } = body;
    const used = { inputTokens, outputTokens, cachedInputTokens, turns, costUsd };
    return withWorking(view, instance, body, { used });
  }
  if (body.type === 'stage-finished') return withEnd(view, instance, body, body.result.outcome);
  return body.type === 'stage-failed' ? withEnd(view, instance, body, 'failed') : view;
}

/** Ends running agents as cancelled, because cancelled items may have no event. */
export function endAgents(view: ItemAgentsView): ItemAgentsView {
  const cut = Object.values(view.working).map((agent): ItemAgent => ({ ...agent, state: 'cancelled' }));
  return { ...view, working: {}, ended: nearestFirst([...view.ended, ...cut]) };
}

/** Lists running agents by their names, then ended agents. */
export function listAgents({ working, ended }: ItemAgentsView): readonly ItemAgent[] {
  const atWork = Object.values(working).toSorted((a, b) => compareNames(a.name, b.name));
  return [...atWork, ...ended].slice(0, SHOWN_AGENTS);
}

interface AgentKey {
  readonly stage: string;
  readonly execKey: string;
}

/**
 * Keeps the largest use that an attempt reported, like the account of the run. Events of an attempt that a later
 * attempt has replaced change nothing.
 */
function withWorking(
  view: ItemAgentsView = NO_AGENTS,
  instance: InstancePath,
  { stage, execKey }: AgentKey,
  told: { readonly budget?: BudgetPlan; readonly used?: ModelUse },
): ItemAgentsView {
  const key = keyOf(stage, instance);
  const attempt = parseExecKey(execKey)?.attempt ?? 1;
  const name = formatStageName(stage, instance);
  const known = valueAt(view.working, key);
  if (known !== undefined && known.attempt > attempt) return view;
  const isKnown = known?.execKey === execKey;
  const before: ItemAgent = isKnown ? known : { name, execKey, attempt, state: 'running', used: NO_USE };
  const { used, ...limits } = told;
  const agent = { ...before, ...limits, used: used === undefined ? before.used : findLargestUse(before.used, used) };
  return {
    attempts: view.attempts + (isKnown ? 0 : 1),
    working: { ...view.working, [key]: agent },
    ended: isKnown ? view.ended : view.ended.filter((each) => each.name !== name),
  };
}

function withEnd(
  view: ItemAgentsView | undefined,
  instance: InstancePath,
  { stage, execKey }: AgentKey,
  state: StageResult['outcome'],
): ItemAgentsView | undefined {
  if (view === undefined) return view;
  const { [keyOf(stage, instance)]: agent, ...working } = view.working;
  if (agent === undefined || agent.execKey !== execKey) return view;
  return { ...view, working, ended: nearestFirst([...view.ended, { ...agent, state }]) };
}

function keyOf(stage: string, instance: InstancePath): string {
  return `${stage}/${formatInstance(instance)}`;
}

function nearestFirst(agents: readonly ItemAgent[]): readonly ItemAgent[] {
  return agents
    .toSorted((a, b) => shareOf(b) - shareOf(a) || tokensOf(b) - tokensOf(a) || compareNames(a.name, b.name))
    .slice(0, SHOWN_AGENTS);
}

/** Sorts agents without a budget after those with one. */
function shareOf({ budget, used }: ItemAgent): number {
  return budget === undefined ? -1 : shareOfBudget(budget, used);
}

function tokensOf({ used }: ItemAgent): number {
  return used.inputTokens + used.outputTokens;
}

/** `work[2]` before `work[10]`. */
function compareNames(a: string, b: string): number {
  return BY_NAME.compare(a, b);
}
