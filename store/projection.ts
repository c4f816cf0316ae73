/** A run as people look at it, folded from its events. Pure: the same events give the same view everywhere. */
import type { BudgetPlan, DataRef, IsolationLevel } from '../domain/plan/plan.ts';
import { NO_USE } from '../domain/agent/budget.ts';
import type { FieldValues } from '../domain/run/approval-answer.ts';
import { parseExecKey } from '../domain/run/attempt.ts';
import { type InstancePath, instanceText, shownStage } from '../domain/run/instance.ts';
import type { RunOrigin } from '../domain/run/origin.ts';
import type { Question, RunEvent, RunEventBody, RunOutcome } from '../domain/run/event.ts';
import { parseVmKey } from '../domain/run/vm-key.ts';
import { type StageFailure, toStageResult } from '../domain/run/stage-result.ts';
import { type BudgetView, withUse } from './budget-view.ts';
import { type NetworkView, withNotice as withDoorNotice } from './network-view.ts';

export interface RunView {
  readonly runId: string;
  readonly name: string;
  readonly kind: string;
  readonly hostId: string;
  /** The earlier run that this one is a retry or a fork of. */
  readonly origin: RunOrigin | null;
  /** Stages whose work is not done, in the order of the spec: they come to what their author wrote. */
  readonly mocked: readonly string[];
  /** Stages whose work is an agent, in the order of the spec. */
  readonly agents: readonly string[];
  /** Those that the mock agent plays, in the order of the spec. */
  readonly mockAgents: readonly string[];
  /** Of all its agents, and what they have used of it; absent: none, or an earlier build admitted it. */
  readonly budget?: BudgetView;
  /** `damaged` is no event: whoever reads a run says it with `withDamage`. */
  readonly state: 'running' | RunOutcome['state'] | 'damaged';
  /** In the order of the spec; a stage that no admission named stands after them. */
  readonly stages: readonly StageView[];
  /** In the order of their first start. */
  readonly vms: readonly VmView[];
  readonly notices: readonly NoticeView[];
  /** Whose output is the result; null: merged of several; '' before the admission. */
  readonly outputStage: string | null;
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number | null;
  readonly finishedAtMs: number | null;
  readonly outcome: RunOutcome | null;
  /** Cursor of the last event that was folded in. */
  readonly seq: number;
  /** What of the run's files is not what was written; what else the view says was read before that. */
  readonly damage: string | null;
}

export type StageState =
  | 'waiting'
  | 'running'
  /** It waits for an answer. */
  | 'asking'
  /** It waits for a time. */
  | 'sleeping'
  | 'retrying'
  | 'succeeded'
  | 'failed'
  | 'cancelled'
  | 'skipped'
  | 'passed';

export interface StageView {
  readonly id: string;
  readonly dependsOn: readonly string[];
  readonly state: StageState;
  /** The run in which it ran, when what it came to there stands for it; null when it is this run's to do. */
  readonly givenBy: string | null;
  /** The latest attempt's; '' before the first. */
  readonly execKey: string;
  /** From 1; 0 before the first start. */
  readonly attempt: number;
  readonly startedAtMs: number | null;
  readonly durationMs: number | null;
  readonly exitCode: number | null;
  readonly failure: StageFailure | null;
  /** What became of its items; null: it is done once. */
  readonly items: ItemsView | null;
  /** What it asks; null unless it waits for an answer. */
  readonly question: Question | null;
  /** The answer to what it asked; null: there is none, or it was taken back. */
  readonly answer: AnswerView | null;
  /** Until when it waits, in milliseconds since the epoch; null unless it waits for a time. */
  readonly sleepsUntilMs: number | null;
  /** Why it was skipped, is tried again, or was taken over. */
  readonly reason: string | null;
  readonly isolation: IsolationLevel | null;
  readonly accelerator: string | null;
  /** What the latest attempt took, once it has ended, by names with their units. */
  readonly usage: Readonly<Record<string, number>>;
  /** What its agent may take in an attempt; absent: as much as it likes, or it has not begun. */
  readonly budget?: BudgetPlan;
  /** Bytes that the latest attempt printed, on both streams, before redaction. */
  readonly outputBytes: number;
  /** Of a loop that was done more than once: the latest visit, from 2. */
  readonly visit?: number;
  /** What a service has published last; absent: nothing, or it is no service. */
  readonly published?: { readonly output: DataRef; readonly atMs: number };
  /** How often another worker took the command over. */
  readonly reattached: number;
  /** The VM of the latest attempt, where that has a door; absent: none. */
  readonly vmKey?: string;
}

export interface AnswerView {
  readonly decision: 'approve' | 'reject';
  /** Null: no name was given, or a deadline stands for the answer. */
  readonly by: string | null;
  readonly comment: string | null;
  /** Of a rejection; those of an approval stand in `output`. Null: none were given. */
  readonly fields: FieldValues | null;
  /** Of an approval. */
  readonly output: DataRef | null;
  readonly atMs: number;
}

/** Counted, and not kept one by one: there may be thousands. */
export interface ItemsView extends ItemCounts {
  /** The first that failed, by number; at most `SHOWN_FAILURES`. */
  readonly failures: readonly ItemFailure[];
  /** Stages of items that wait for an answer, in the order in which they began to. Absent: none has asked. */
  readonly questions?: readonly ItemQuestion[] | undefined;
  /** Lists within items, by stage: those of all items around them together. Absent: none has begun. */
  readonly within?: Readonly<Record<string, ItemCounts>> | undefined;
}

export interface ItemQuestion {
  /** For people, and for an answer: `review[3].ok`. */
  readonly name: string;
  readonly execKey: string;
  readonly question: Question;
}

export interface ItemCounts {
  readonly total: number;
  readonly running: number;
  readonly succeeded: number;
  readonly failed: number;
  /**
   * Latest attempts of items that run or have failed, by item, of a list within an item by its instance: what a later event of
   * theirs takes back.
   */
  readonly open: Readonly<Record<string, 'running' | 'failed'>>;
}

export interface ItemFailure {
  /** From 0. */
  readonly item: number;
  readonly execKey: string;
  readonly failure: StageFailure;
}

/** Of a stage; all of them stand in the log. */
export const SHOWN_FAILURES = 20;

export interface VmView {
  readonly vmKey: string;
  readonly scope: string;
  readonly generation: number;
  readonly state: 'starting' | 'ready' | 'lost' | 'stopped';
  readonly isolation: IsolationLevel | null;
  readonly accelerator: string | null;
  readonly kernel: string | null;
  readonly jail: string | null;
  readonly bootMs: number | null;
  /** Why it was lost. */
  readonly reason: string | null;
  /** What its door did; absent: nothing yet, or it has none. */
  readonly network?: NetworkView;
}

export interface NoticeView {
  readonly atMs: number;
  readonly level: 'info' | 'warning';
  readonly message: string;
}

/** A run of which nothing is known but its id. */
export function emptyView(runId: string): RunView {
  return {
    runId,
    name: '',
    kind: '',
    hostId: '',
    origin: null,
    mocked: [],
    agents: [],
    mockAgents: [],
    state: 'running',
    stages: [],
    vms: [],
    notices: [],
    outputStage: '',
    startedAtMs: null,
    finishedAtMs: null,
    outcome: null,
    seq: 0,
    damage: null,
  };
}

export function withDamage(view: RunView, damage: string): RunView {
  return { ...view, state: 'damaged', damage };
}

/**
 * Folds one event in. An event that says what is known already changes nothing, one of a type that this
 * build does not know only moves the cursor, and what comes late never takes a later fact back.
 */
export function project(view: RunView, event: RunEvent): RunView {
  const next = fold(view, event);
  return { ...next, seq: Math.max(view.seq, event.seq) };
}

function fold(before: RunView, { atMs, body }: RunEvent): RunView {
  const view = before.budget === undefined ? before : { ...before, budget: withUse(before.budget, body) };
  const item = itemOf(body);
  if (item !== null)
    return withStage(view, item.stage, (stage) =>
      // In a loop the view shows the items of the latest visit.
      item.attempt < stage.attempt
        ? stage
        : withAgents(
            withQuestions(withInner(withItem(stage, item.item, body), item.instance, body), item.instance, body),
            body,
          ),
    );
  switch (body.type) {
    case 'run-admitted': {
      const early = new Map(view.stages.map((stage) => [stage.id, stage]));
      const named = body.stages.map(({ id, dependsOn }) => ({ ...(early.get(id) ?? newStage(id)), dependsOn }));
      const names = new Set(body.stages.map((stage) => stage.id));
      const others = view.stages.filter((stage) => !names.has(stage.id));
      return {
        ...view,
        name: body.name,
        kind: body.kind,
        hostId: body.hostId,
        origin: body.origin ?? null,
        mocked: body.mocked ?? [],
        agents: body.agents ?? [],
        mockAgents: body.mockAgents ?? [],
        ...(body.budget === undefined ? {} : { budget: { limits: body.budget, ended: NO_USE, open: {} } }),
        outputStage: body.outputStage,
        stages: [...named, ...others],
        startedAtMs: atMs,
      };
    }
    case 'run-resumed':
      return withNotice(view, { atMs, level: 'info', message: `resumed by ${body.by}` });
    case 'run-finished':
      return view.outcome !== null
        ? view
        : {
            ...view,
            state: body.outcome.state,
            outcome: body.outcome,
            finishedAtMs: atMs,
            stages: view.stages.map((stage) => settle(stage, body.outcome, atMs)),
            vms: view.vms.map(ended),
          };
    case 'vm-starting':
      return withVm(view, body, (vm) => vm);
    case 'vm-ready': {
      const { isolation, accelerator, kernel, jail, bootMs } = body;
      return withVm(view, body, (vm) => ({
        ...vm,
        state: vm.state === 'starting' ? 'ready' : vm.state,
        isolation,
        accelerator,
        kernel,
        jail,
        bootMs,
      }));
    }
    case 'vm-lost':
      return withVm(view, body, (vm) => ({ ...vm, state: 'lost', reason: body.reason }));
    case 'vm-stopped':
      return withVm(view, body, (vm) => ({ ...vm, state: vm.state === 'lost' ? 'lost' : 'stopped' }));
    case 'network':
      return withVm(view, body, (vm) => ({ ...vm, network: withDoorNotice(vm.network, body, atMs) }));
    case 'scope-restarted':
      return withNotice(reopened(view, body), {
        atMs,
        level: 'warning',
        message: `VM scope ${body.scope} starts again (${body.reason})${body.stages.length === 0 ? '' : `; stages that run again: ${body.stages.join(', ')}`}`,
      });
    case 'loop-visited':
      return visited(view, body);
    case 'stage-started':
      return withStage(view, body.stage, (stage) =>
        withTotal(inVm(started(stage, body.execKey, body.attempt, atMs), body), body.items),
      );
    case 'stage-reattached':
      return withStage(view, body.stage, (stage) => ({
        ...stage,
        reattached: stage.reattached + 1,
        reason:
          stage.state === 'running' && !isStale(stage, body.execKey) ? (body.reason ?? stage.reason) : stage.reason,
      }));
    case 'output':
      return withStage(view, body.stage, (stage) =>
        isStale(stage, body.execKey) ? stage : { ...stage, outputBytes: stage.outputBytes + body.to - body.from },
      );
    case 'agent-usage':
      return withStage(view, body.stage, (stage) =>
        isStale(stage, body.execKey) ? stage : { ...stage, usage: { ...stage.usage, ...usageOf(body) } },
      );
    case 'stage-published':
      return withStage(view, body.stage, (stage) =>
        isStale(stage, body.execKey) ? stage : { ...stage, published: { output: body.output, atMs } },
      );
    case 'stage-finished': {
      const result = toStageResult(body.result);
      return withStage(view, body.stage, (stage) =>
        isStale(stage, body.execKey)
          ? stage
          : {
              ...stage,
              items: stage.items === null ? null : endedItems(stage.items),
              state: result.outcome,
              execKey: body.execKey,
              durationMs: result.durationMs,
              exitCode: result.command?.exitCode ?? null,
              failure: result.failure,
              reason: null,
              isolation: result.vm?.isolation ?? null,
              accelerator: result.vm?.accelerator ?? null,
              // What agents of its items took was counted as each ended.
              usage: stage.items === null ? result.usage : { ...agentUsageOf(stage.usage), ...result.usage },
              outputBytes: Math.max(
                stage.outputBytes,
                (result.command?.stdoutBytes ?? 0) + (result.command?.stderrBytes ?? 0),
              ),
            },
      );
    }
    case 'stage-retrying':
      return withStage(view, body.stage, (stage) =>
        isStale(stage, body.execKey) ? stage : { ...stage, state: 'retrying', reason: body.reason },
      );
    case 'stage-asking':
      return withStage(view, body.stage, (stage) => asAsking(started(stage, body.execKey, body.attempt, atMs), body));
    case 'stage-answered':
      return withStage(view, body.stage, (stage) =>
        isStale(stage, body.execKey)
          ? stage
          : {
              ...stage,
              state: body.outcome,
              execKey: body.execKey,
              durationMs: elapsedMs(stage, atMs),
              failure: body.failure,
              question: null,
              answer: answerIn(body, atMs),
              reason: answeredBy(body),
            },
      );
    case 'stage-given':
      return withStage(view, body.stage, (stage) =>
        stage.state === 'waiting' ? { ...stage, state: body.outcome, givenBy: body.runId } : stage,
      );
    case 'stage-sleeping':
      return withStage(view, body.stage, (stage) => asSleeping(started(stage, body.execKey, body.attempt, atMs), body));
    case 'stage-woken':
      return withStage(view, body.stage, (stage) =>
        isStale(stage, body.execKey)
          ? stage
          : woken(started(stage, body.execKey, attemptOf(body.execKey), atMs), body.outcome, atMs),
      );
    case 'stage-failed':
      return withStage(view, body.stage, (stage) =>
        isStale(stage, body.execKey) ? stage : failed(stage, body.execKey, body.failure, atMs),
      );
    case 'stage-skipped':
      return withStage(view, body.stage, (stage) =>
        stage.state === 'waiting' ? { ...stage, state: 'skipped', reason: body.reason } : stage,
      );
    case 'stage-passed':
      return withStage(view, body.stage, (stage) =>
        stage.state === 'waiting' ? { ...stage, state: 'passed', reason: 'its condition does not hold' } : stage,
      );
    case 'notice':
      return withNotice(view, { atMs, level: body.level, message: body.message });
    // They stand in the log; what they cost comes as `agent-usage`.
    case 'agent-text':
    case 'agent-tool':
    case 'stage-progress':
    case 'stage-resumed':
    case 'skill-step':
    default:
      return view;
  }
}

/** The item of a stage that an event is of; null: it is of the run itself, or of no stage. */
function itemOf(body: RunEventBody): {
  readonly stage: string;
  readonly item: number;
  /** Of the stage, which made the list. */
  readonly attempt: number;
  readonly instance: InstancePath;
} | null {
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

function usageOf(body: Extract<RunEventBody, { type: 'agent-usage' }>): StageView['usage'] {
  const { inputTokens, outputTokens, cachedInputTokens, turns, costUsd } = body;
  return { inputTokens, outputTokens, cachedInputTokens, turns, ...(costUsd === null ? {} : { costUsd }) };
}

/** Of a stage that an agent worked on. */
const AGENT_USAGE = ['inputTokens', 'outputTokens', 'cachedInputTokens', 'turns', 'costUsd'] as const;

function agentUsageOf(usage: StageView['usage']): StageView['usage'] {
  return Object.fromEntries(AGENT_USAGE.flatMap((name) => (usage[name] === undefined ? [] : [[name, usage[name]]])));
}

/** What agents of items took, each of their attempts included, is what the stage with the list took. */
function withAgents(stage: StageView, body: RunEventBody): StageView {
  if (body.type !== 'stage-finished') return stage;
  const took = Object.entries(agentUsageOf(toStageResult(body.result).usage));
  if (took.length === 0) return stage;
  const sums = took.map(([name, value]) => [name, (stage.usage[name] ?? 0) + value] as const);
  return { ...stage, usage: { ...stage.usage, ...Object.fromEntries(sums) } };
}

function withTotal(stage: StageView, total: number | undefined): StageView {
  if (total === undefined) return stage;
  return { ...stage, items: { ...(stage.items ?? NO_ITEMS), total } };
}

const NO_ITEMS: ItemsView = { total: 0, running: 0, succeeded: 0, failed: 0, failures: [], open: {} };

/** VMs of items are left out: each lives for one of them. Of a part an item ends with the stage that ends the part. */
function withItem(stage: StageView, item: number, body: RunEventBody): StageView {
  if (body.type === 'stage-started' || body.type === 'stage-asking' || body.type === 'stage-retrying')
    return withItems(stage, item, 'running', null);
  if (body.type === 'output') return { ...stage, outputBytes: stage.outputBytes + body.to - body.from };
  if (body.type === 'stage-reattached') return { ...stage, reattached: stage.reattached + 1 };
  if ('stage' in body && body.stage !== stage.id) return stage;
  if (body.type === 'stage-failed')
    return withItems(stage, item, 'failed', { item, execKey: body.execKey, failure: body.failure });
  if (body.type !== 'stage-finished') return stage;
  const { outcome, failure } = toStageResult(body.result);
  if (outcome === 'failed' && failure !== null)
    return withItems(stage, item, 'failed', { item, execKey: body.execKey, failure });
  return withItems(stage, item, outcome === 'succeeded' ? 'succeeded' : null, null);
}

/** Lists within items, which are counted alone: `logs` shows their items. */
function withInner(stage: StageView, instance: InstancePath, body: RunEventBody): StageView {
  if (!('stage' in body)) return stage;
  const items = stage.items ?? NO_ITEMS;
  const counted = (list: string, change: (counts: ItemCounts) => ItemCounts): StageView => ({
    ...stage,
    items: { ...items, within: { ...items.within, [list]: change(items.within?.[list] ?? NO_COUNTS) } },
  });
  if (body.type === 'stage-started' && body.items !== undefined) {
    const { items: count } = body;
    return counted(body.stage, (counts) => ({ ...counts, total: counts.total + count }));
  }
  const list = instance.at(-1)!.part;
  if (instance.length < 2) return stage;
  const state = stateOfItem(body, list);
  return state === undefined ? stage : counted(list, (counts) => moved(counts, instanceText(instance), state));
}

/** What is asked in items, and what is not any more. Of a window that begins again, the question stands as it was. */
function withQuestions(stage: StageView, instance: InstancePath, body: RunEventBody): StageView {
  if (!('execKey' in body)) return stage;
  const { execKey } = body;
  const items = stage.items ?? NO_ITEMS;
  const others = (items.questions ?? []).filter((each) => each.execKey !== execKey);
  if (body.type === 'stage-asking' && body.question !== undefined) {
    const asked = { name: shownStage(body.stage, instance), execKey, question: body.question };
    return { ...stage, items: { ...items, questions: [...others, asked] } };
  }
  const isOver = body.type === 'stage-answered' || body.type === 'stage-failed';
  return isOver && others.length !== (items.questions ?? []).length
    ? { ...stage, items: { ...items, questions: others } }
    : stage;
}

/** What an event makes of the item whose list is of this stage; null: it was cancelled, undefined: it stays as it was. */
function stateOfItem(body: RunEventBody, list: string): 'running' | 'failed' | 'succeeded' | null | undefined {
  if (body.type === 'stage-started' || body.type === 'stage-retrying') return 'running';
  if (!('stage' in body) || body.stage !== list) return undefined;
  if (body.type === 'stage-failed') return 'failed';
  if (body.type !== 'stage-finished') return undefined;
  const { outcome } = toStageResult(body.result);
  return outcome === 'failed' || outcome === 'succeeded' ? outcome : null;
}

/** Of items that were cancelled not each has an event, and nobody answers them any more. */
function endedItems(items: ItemsView): ItemsView {
  const { within, questions } = items;
  const settled = { ...items, ...endedCounts(items), ...(questions === undefined ? {} : { questions: [] }) };
  if (within === undefined) return settled;
  const ended = Object.entries(within).map(([list, counts]) => [list, endedCounts(counts)] as const);
  return { ...settled, within: Object.fromEntries(ended) };
}

function endedCounts({ total, succeeded, failed, open }: ItemCounts): ItemCounts {
  const kept = Object.fromEntries(Object.entries(open).filter(([, state]) => state === 'failed'));
  return { total, running: 0, succeeded, failed, open: kept };
}

const NO_COUNTS: ItemCounts = { total: 0, running: 0, succeeded: 0, failed: 0, open: {} };

function moved(
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
      ...moved(items, item, state),
      failures:
        failure === null
          ? known.length === items.failures.length
            ? items.failures
            : known
          : [...known, failure].toSorted((a, b) => a.item - b.item).slice(0, SHOWN_FAILURES),
    },
  };
}

/** A stage of which nothing is known but its name. */
export function newStage(id: string): StageView {
  return {
    id,
    dependsOn: [],
    state: 'waiting',
    givenBy: null,
    execKey: '',
    attempt: 0,
    startedAtMs: null,
    durationMs: null,
    exitCode: null,
    failure: null,
    items: null,
    question: null,
    answer: null,
    sleepsUntilMs: null,
    reason: null,
    isolation: null,
    accelerator: null,
    usage: {},
    outputBytes: 0,
    reattached: 0,
  };
}

/** An attempt is known by its number; a late start of an attempt that ended already brings only its time. */
function started(stage: StageView, execKey: string, attempt: number, atMs: number): StageView {
  if (attempt < stage.attempt) return stage;
  if (stage.execKey === execKey)
    return {
      ...stage,
      attempt,
      startedAtMs: stage.startedAtMs ?? atMs,
      state: stage.state === 'waiting' ? 'running' : stage.state,
    };
  const { id, dependsOn, visit } = stage;
  const seen = visit === undefined ? {} : { visit };
  return { ...newStage(id), dependsOn, ...seen, state: 'running', execKey, attempt, startedAtMs: atMs };
}

function inVm(
  stage: StageView,
  { execKey, vmKey, budget }: Extract<RunEventBody, { type: 'stage-started' }>,
): StageView {
  if (stage.execKey !== execKey) return stage;
  return { ...stage, ...(vmKey === undefined ? {} : { vmKey }), ...(budget === undefined ? {} : { budget }) };
}

/** The run machine's word, which stands above a result that did not come to it. */
function failed(stage: StageView, execKey: string, failure: StageFailure, atMs: number): StageView {
  const hasBegun = stage.execKey === execKey;
  return {
    ...(hasBegun ? stage : { ...newStage(stage.id), dependsOn: stage.dependsOn, execKey, attempt: attemptOf(execKey) }),
    state: 'failed',
    durationMs: hasBegun ? (stage.durationMs ?? elapsedMs(stage, atMs)) : null,
    failure,
    reason: null,
  };
}

/** Stages whose VM was lost, and what is needed again because of it. A restart that a later VM has overtaken says nothing new. */
function reopened(
  view: RunView,
  { scope, reason, stages }: Extract<RunEventBody, { type: 'scope-restarted' }>,
): RunView {
  const latest = view.vms.filter((vm) => vm.scope === scope).at(-1);
  if (latest?.state === 'starting' || latest?.state === 'ready') return view;
  return stages.reduce(
    (all, id) =>
      withStage(all, id, (stage) =>
        stage.attempt === 0
          ? { ...newStage(id), dependsOn: stage.dependsOn }
          : { ...stage, state: 'retrying', failure: null, answer: null, reason },
      ),
    view,
  );
}

function visited(
  view: RunView,
  { stage: loop, visit, stages }: Extract<RunEventBody, { type: 'loop-visited' }>,
): RunView {
  const opened = stages.reduce(
    (all, id) =>
      withStage(all, id, (stage) => ({ ...stage, state: 'waiting', failure: null, answer: null, reason: null })),
    view,
  );
  return withStage(opened, loop, (stage) => ({ ...stage, visit }));
}

function elapsedMs(stage: StageView, atMs: number): number | null {
  return stage.startedAtMs === null ? null : Math.max(0, atMs - stage.startedAtMs);
}

function asAsking(stage: StageView, { execKey, question }: Extract<RunEventBody, { type: 'stage-asking' }>): StageView {
  return stage.execKey === execKey && stage.state === 'running'
    ? { ...stage, state: 'asking', question: question ?? null }
    : stage;
}

function asSleeping(
  stage: StageView,
  { execKey, untilMs }: Extract<RunEventBody, { type: 'stage-sleeping' }>,
): StageView {
  return stage.execKey === execKey && stage.state === 'running'
    ? { ...stage, state: 'sleeping', sleepsUntilMs: untilMs }
    : stage;
}

/** One whose time had passed was never asleep. */
function woken(stage: StageView, state: 'succeeded' | 'cancelled', atMs: number): StageView {
  return { ...stage, state, durationMs: elapsedMs(stage, atMs), sleepsUntilMs: null };
}

/** A question that was withdrawn, or could not be asked, has none. */
export function answerIn(
  { outcome, failure, by, comment, fields, output }: Extract<RunEventBody, { type: 'stage-answered' }>,
  atMs: number,
): AnswerView | null {
  if (outcome !== 'succeeded' && failure?.code !== 'stage/rejected') return null;
  return {
    decision: outcome === 'succeeded' ? 'approve' : 'reject',
    by: by ?? null,
    comment: comment ?? null,
    fields: fields ?? null,
    output: output ?? null,
    atMs,
  };
}

/** Who said yes, and what beside it; a failure says it itself. */
function answeredBy({ outcome, by, comment }: Extract<RunEventBody, { type: 'stage-answered' }>): string | null {
  if (outcome !== 'succeeded') return null;
  return `approved${by === undefined ? '' : ` by ${by}`}${comment === undefined ? '' : `: ${comment}`}`;
}

/** Of an earlier attempt than the one that the view shows. */
function isStale(stage: StageView, execKey: string): boolean {
  return stage.execKey !== '' && stage.execKey !== execKey && attemptOf(execKey) < attemptOf(stage.execKey);
}

/** The number at the end of `<stage>/<item>/<attempt>`. */
function attemptOf(execKey: string): number {
  const attempt = Number(execKey.slice(execKey.lastIndexOf('/') + 1));
  return Number.isSafeInteger(attempt) ? attempt : 0;
}

/**
 * A run that has ended has no stage that waits or runs. Earlier builds wrote no event of a stage that failed without a result:
 * of one of them the outcome says so.
 */
function settle(stage: StageView, outcome: RunOutcome, atMs: number): StageView {
  if (stage.id === outcome.failedStage && outcome.failure !== null && stage.failure === null)
    return failed(stage, stage.execKey, outcome.failure, atMs);
  if (stage.state === 'waiting')
    return { ...stage, state: 'skipped', reason: stage.reason ?? `the run ended: ${outcome.state}` };
  if (!['running', 'asking', 'sleeping', 'retrying'].includes(stage.state)) return stage;
  const items = stage.items === null ? null : endedItems(stage.items);
  return {
    ...stage,
    items,
    state: outcome.state === 'failed' ? 'failed' : 'cancelled',
    durationMs: elapsedMs(stage, atMs),
    question: null,
    sleepsUntilMs: null,
  };
}

/** With its run a VM ends, however that ended: one that nothing released is stopped by its host. */
function ended(vm: VmView): VmView {
  return vm.state === 'starting' || vm.state === 'ready' ? { ...vm, state: 'stopped' } : vm;
}

function withStage(view: RunView, id: string, change: (stage: StageView) => StageView): RunView {
  const index = view.stages.findIndex((stage) => stage.id === id);
  const stage = view.stages[index];
  if (stage === undefined) return { ...view, stages: [...view.stages, change(newStage(id))] };
  const changed = change(stage);
  return changed === stage ? view : { ...view, stages: view.stages.with(index, changed) };
}

function withVm(
  view: RunView,
  identity: { readonly vmKey: string; readonly scope: string; readonly generation: number },
  change: (vm: VmView) => VmView,
): RunView {
  const index = view.vms.findIndex((vm) => vm.vmKey === identity.vmKey);
  const vm = view.vms[index] ?? {
    vmKey: identity.vmKey,
    scope: identity.scope,
    generation: identity.generation,
    state: 'starting',
    isolation: null,
    accelerator: null,
    kernel: null,
    jail: null,
    bootMs: null,
    reason: null,
  };
  const changed = view.outcome === null ? change(vm) : ended(change(vm));
  return { ...view, vms: index === -1 ? [...view.vms, changed] : view.vms.with(index, changed) };
}

function withNotice(view: RunView, notice: NoticeView): RunView {
  return { ...view, notices: [...view.notices, notice] };
}
