/** Applies events of items to the view of the stage with the list: counts, failures, questions, use. */
import { parseExecKey } from '../domain/run/attempt.ts';
import { type InstancePath, formatInstance, formatStageName } from '../domain/run/instance.ts';
import type { RunEventBody } from '../domain/run/event.ts';
import { parseVmKey } from '../domain/run/vm-key.ts';
import { endAgents, withItemAgent } from './item-agents.ts';
import { type ItemCounts, type ItemFailure, type ItemsView, SHOWN_FAILURES, type StageView } from './run-view.ts';
import { createMapping, valueAt } from '../domain/units/mapping.ts';

interface EventItem {
  readonly stage: string;
  readonly item: number;
  /** The attempt of the stage, which made the list. */
  readonly attempt: number;
  readonly instance: InstancePath;
}

/** Returns the item of a stage that an event belongs to. Null: the event belongs to the run itself, or to no stage. */
export function itemOf(body: RunEventBody): EventItem | null {
  const instance =
    'execKey' in body
      ? parseExecKey(body.execKey)?.instance
      : 'vmKey' in body
        ? parseVmKey(body.vmKey)?.instance
        : null;
  const step = instance?.[0];
  return instance === undefined || instance === null || step === undefined
    ? null
    : { stage: step.part, item: step.item, attempt: step.attempt ?? 1, instance };
}

/** @param stage  the one with the list */
export function projectItem(stage: StageView, { item, instance }: EventItem, body: RunEventBody): StageView {
  const counted = withInner(withItem(stage, item, body), instance, body);
  return withItemAgents(withAgents(withQuestions(counted, instance, body), body), instance, body);
}

/** The usage of a stage that an agent worked on. */
const AGENT_USAGE = ['inputTokens', 'outputTokens', 'cachedInputTokens', 'turns', 'costUsd', 'partlyCounted'] as const;

export function agentUsageOf(usage: StageView['usage']): StageView['usage'] {
  return createMapping(AGENT_USAGE.flatMap((name) => (usage[name] === undefined ? [] : [[name, usage[name]]])));
}

/** Adds the use of items' agents, in each attempt, to the use of the stage with the list. */
function withAgents(stage: StageView, body: RunEventBody): StageView {
  if (body.type !== 'stage-finished') return stage;
  const took = Object.entries(agentUsageOf(body.result.usage));
  if (took.length === 0) return stage;
  const sums = took.map(([name, value]) => [name, (stage.usage[name] ?? 0) + value] as const);
  return { ...stage, usage: { ...stage.usage, ...createMapping(sums) } };
}

function withItemAgents(stage: StageView, instance: InstancePath, body: RunEventBody): StageView {
  const items = stage.items ?? NO_ITEMS;
  const agents = withItemAgent(items.agents, instance, body);
  return agents === items.agents ? stage : { ...stage, items: { ...items, agents } };
}

export function withTotal(stage: StageView, total: number | undefined): StageView {
  if (total === undefined) return stage;
  return { ...stage, items: { ...(stage.items ?? NO_ITEMS), total } };
}

const NO_ITEMS: ItemsView = { total: 0, running: 0, succeeded: 0, failed: 0, failures: [], open: {} };

/**
 * Leaves out VMs of items, because each serves only one item. An item of a part ends with the stage that ends the part.
 */
function withItem(stage: StageView, item: number, body: RunEventBody): StageView {
  if (body.type === 'stage-started' || body.type === 'stage-asking' || body.type === 'stage-retrying')
    return withItems(stage, item, 'running', null);
  if (body.type === 'output') return { ...stage, outputBytes: stage.outputBytes + body.to - body.from };
  if (body.type === 'stage-reattached') return { ...stage, reattached: stage.reattached + 1 };
  if ('stage' in body && body.stage !== stage.id) return stage;
  if (body.type === 'stage-failed')
    return withItems(stage, item, 'failed', { item, execKey: body.execKey, failure: body.failure });
  if (body.type !== 'stage-finished') return stage;
  const { outcome, failure } = body.result;
  if (outcome === 'failed' && failure !== null)
    return withItems(stage, item, 'failed', { item, execKey: body.execKey, failure });
  return withItems(stage, item, outcome === 'succeeded' ? 'succeeded' : null, null);
}

/** Only counts lists within items: `logs` shows their items. */
function withInner(stage: StageView, instance: InstancePath, body: RunEventBody): StageView {
  if (!('stage' in body)) return stage;
  const items = stage.items ?? NO_ITEMS;
  const withCounts = (list: string, change: (counts: ItemCounts) => ItemCounts): StageView => ({
    ...stage,
    items: { ...items, within: { ...items.within, [list]: change(valueAt(items.within ?? {}, list) ?? NO_COUNTS) } },
  });
  if (body.type === 'stage-started' && body.items !== undefined) {
    const { items: count } = body;
    return withCounts(body.stage, (counts) => ({ ...counts, total: counts.total + count }));
  }
  const list = instance.at(-1)!.part;
  if (instance.length < 2) return stage;
  const state = stateOfItem(body, list);
  return state === undefined ? stage : withCounts(list, (counts) => moveItem(counts, formatInstance(instance), state));
}

/** Updates the open questions of items. A repeated `stage-asking` of an attempt replaces its question. */
function withQuestions(stage: StageView, instance: InstancePath, body: RunEventBody): StageView {
  if (!('execKey' in body)) return stage;
  const { execKey } = body;
  const items = stage.items ?? NO_ITEMS;
  const others = (items.questions ?? []).filter((each) => each.execKey !== execKey);
  if (body.type === 'stage-asking') {
    const asked = { name: formatStageName(body.stage, instance), execKey, question: body.question };
    return { ...stage, items: { ...items, questions: [...others, asked] } };
  }
  const isOver = body.type === 'stage-answered' || body.type === 'stage-failed';
  return isOver && others.length !== (items.questions ?? []).length
    ? { ...stage, items: { ...items, questions: others } }
    : stage;
}

/**
 * Returns the state that an event gives the item whose list belongs to this stage. Null: the item was cancelled.
 * Undefined: its state stays.
 */
function stateOfItem(body: RunEventBody, list: string): 'running' | 'failed' | 'succeeded' | null | undefined {
  if (body.type === 'stage-started' || body.type === 'stage-retrying') return 'running';
  if (!('stage' in body) || body.stage !== list) return undefined;
  if (body.type === 'stage-failed') return 'failed';
  if (body.type !== 'stage-finished') return undefined;
  const { outcome } = body.result;
  return outcome === 'failed' || outcome === 'succeeded' ? outcome : null;
}

/** Settles the items of an ended stage: cancelled items may have no event, and their questions accept no answer. */
export function endItems(items: ItemsView): ItemsView {
  const { within, questions, agents } = items;
  const settled = {
    ...items,
    ...endCounts(items),
    ...(questions === undefined ? {} : { questions: [] }),
    ...(agents === undefined ? {} : { agents: endAgents(agents) }),
  };
  if (within === undefined) return settled;
  const ended = Object.entries(within).map(([list, counts]) => [list, endCounts(counts)] as const);
  return { ...settled, within: createMapping(ended) };
}

function endCounts({ total, succeeded, failed, open }: ItemCounts): ItemCounts {
  const kept = createMapping(Object.entries(open).filter(([, state]) => state === 'failed'));
  return { total, running: 0, succeeded, failed, open: kept };
}

const NO_COUNTS: ItemCounts = { total: 0, running: 0, succeeded: 0, failed: 0, open: {} };

function moveItem(
  counts: ItemCounts,
  item: string | number,
  state: 'running' | 'failed' | 'succeeded' | null,
): ItemCounts {
  const { [item]: before, ...others } = counts.open;
  const count = (of: 'running' | 'failed' | 'succeeded'): number =>
    counts[of] + (state === of ? 1 : 0) - (before === of ? 1 : 0);
  return {
    total: counts.total,
    running: count('running'),
    succeeded: count('succeeded'),
    failed: count('failed'),
    open: state === 'running' || state === 'failed' ? { ...others, [item]: state } : others,
  };
}

/** @param state  null: it was cancelled */
function withItems(
  stage: StageView,
  item: number,
  state: 'running' | 'failed' | 'succeeded' | null,
  failure: ItemFailure | null,
): StageView {
  const items = stage.items ?? NO_ITEMS;
  const known = items.failures.filter((each) => each.item !== item);
  return {
    ...stage,
    items: {
      ...items,
      ...moveItem(items, item, state),
      failures:
        failure === null
          ? known.length === items.failures.length
            ? items.failures
            : known
          : [...known, failure].toSorted((a, b) => a.item - b.item).slice(0, SHOWN_FAILURES),
    },
  };
}
