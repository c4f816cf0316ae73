import { formatBytes } from '../../../domain/units/bytes.ts';
import { formatDurationMs } from '../../../domain/units/duration.ts';
import type { ItemCounts, RunView, StageState, StageView } from '../../../store/run-view.ts';
import { agentNotes } from './agent-usage.ts';
import { budgetOfStage } from '../../../app/json/budget-json.ts';
import { renderBudget } from './budget.ts';
import { formatItemCount, formatTime } from '../../../app/lines/event-lines.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { StageFacts } from '../../../app/runs/stage-facts.ts';
import { paintState, stateSign } from '../host/state-sign.ts';
import type { Style } from '../text/style.ts';
import { displayWidth, padEnd, truncate } from '../text/width.ts';

export interface StageLinesOptions {
  readonly style: Style;
  readonly width: number;
  readonly nowMs: number;
  /** The step of the sign of running stages, one more each redraw; absent if the output is not redrawn. */
  readonly frame?: number;
  /** Most lines; stages beyond them are counted in one line, ended and waiting ones first. */
  readonly maxLines?: number;
  /** Facts of the stages from the plan, if the plan is known. */
  readonly facts?: ReadonlyMap<string, StageFacts>;
}

const MOST_MOCKED = 8;
/** The order in which stages are kept if not all fit: users look for running and failed stages first. */
const IMPORTANCE: Readonly<Record<StageState, number>> = {
  failed: 0,
  asking: 1,
  running: 2,
  retrying: 3,
  sleeping: 4,
  cancelled: 5,
  succeeded: 6,
  waiting: 7,
  passed: 8,
  skipped: 9,
};

/** One line a stage, in the order of the spec: sign, name, state, time, and why. */
export function renderStages(view: RunView, options: StageLinesOptions): string[] {
  const shown = pick(view.stages, options.maxLines ?? Number.POSITIVE_INFINITY);
  const nameWidth = Math.min(Math.max(...shown.map((stage) => displayWidth(sanitizeLine(stage.id))), 4), 32);
  const mocked = new Set(view.mocked);
  const lines = shown.map((stage) => renderStage(stage, view, mocked.has(stage.id), nameWidth, options));
  const hidden = view.stages.length - shown.length;
  return hidden === 0
    ? lines
    : [...lines, options.style.dim(`  … and ${hidden} more ${hidden === 1 ? 'stage' : 'stages'}`)];
}

/** `3 stages: 1 succeeded, 1 running, 1 waiting · 4.2 s`. */
export function renderCounts(view: RunView, nowMs: number): string {
  const counts = new Map<StageState, number>();
  for (const stage of view.stages) counts.set(stage.state, (counts.get(stage.state) ?? 0) + 1);
  const order: readonly StageState[] = [
    'succeeded',
    'failed',
    'cancelled',
    'passed',
    'skipped',
    'asking',
    'sleeping',
    'running',
    'retrying',
    'waiting',
  ];
  const parts = order.flatMap((state) => (counts.has(state) ? [`${counts.get(state)} ${state}`] : []));
  const total = view.stages.length === 1 ? '1 stage' : `${view.stages.length} stages`;
  const elapsed =
    view.startedAtMs === null ? '' : ` · ${formatDurationMs((view.finishedAtMs ?? nowMs) - view.startedAtMs)}`;
  const mocked = view.mocked.length === 0 ? '' : ` · ${view.mocked.length} mocked`;
  const agents = view.mockAgents.length === 0 ? '' : ' · mock agents';
  return `${total}: ${parts.join(', ')}${mocked}${agents}${elapsed}`;
}

/** Renders the mocked stages of a run that has some: `2 of 5 stages: test, deploy`. */
export function renderMockedCount({ mocked, stages }: RunView): string {
  const shown = mocked.slice(0, MOST_MOCKED).map(sanitizeLine).join(', ');
  const more = mocked.length > MOST_MOCKED ? ` and ${mocked.length - MOST_MOCKED} more` : '';
  // Stages of items are mocked under their own names, and have no row in the table.
  const all = new Set([...stages.map(({ id }) => id), ...mocked]).size;
  return `${mocked.length} of ${all} ${all === 1 ? 'stage' : 'stages'}: ${shown}${more}`;
}

function pick(stages: readonly StageView[], maxLines: number): readonly StageView[] {
  if (stages.length <= maxLines) return stages;
  const room = Math.max(0, maxLines - 1);
  const chosen = new Set(
    [...stages].sort((one, other) => IMPORTANCE[one.state] - IMPORTANCE[other.state]).slice(0, room),
  );
  return stages.filter((stage) => chosen.has(stage));
}

function renderStage(
  stage: StageView,
  view: RunView,
  isMocked: boolean,
  nameWidth: number,
  options: StageLinesOptions,
): string {
  const { style, width } = options;
  const name = padEnd(truncate(sanitizeLine(stage.id), nameWidth), nameWidth);
  const state = padEnd(paintState(stage.state, style), 'succeeded'.length);
  const time = padEnd(stageTime(stage, options.nowMs), 7);
  const facts = options.facts?.get(stage.id);
  const note = [
    ...(facts?.finally === true ? ['finally'] : []),
    ...(isMocked ? ['mocked'] : []),
    ...agentNotes(stage, view),
    ...budgetNote(stage, facts),
    ...stageNotes(stage),
    ...conditionNote(stage, facts),
  ].join(', ');
  return truncate(
    `${stateSign(stage.state, style, options.frame)} ${style.bold(name)}  ${state}  ${time}${note === '' ? '' : `  ${style.dim(note)}`}`.trimEnd(),
    width,
  );
}

function stageTime(stage: StageView, nowMs: number): string {
  if (stage.durationMs !== null) return formatDurationMs(stage.durationMs);
  if (stage.startedAtMs === null || stage.state === 'waiting' || stage.state === 'skipped' || stage.state === 'passed')
    return '';
  return formatDurationMs(Math.max(0, nowMs - stage.startedAtMs));
}

function stageNotes(stage: StageView): readonly string[] {
  const parts: string[] = stage.givenBy === null ? [] : [`taken over from ${sanitizeLine(stage.givenBy)}`];
  if (stage.attempt > 1) parts.push(`attempt ${stage.attempt}`);
  if (stage.visit !== undefined) parts.push(`visit ${stage.visit}`);
  if (stage.items !== null) {
    parts.push(itemsNote(stage.items));
    for (const [list, counts] of Object.entries(stage.items.within ?? {}))
      parts.push(`${sanitizeLine(list)}: ${itemsNote(counts)}`);
  }
  if (stage.published !== undefined && stage.state === 'running')
    parts.push(`published ${formatBytes(stage.published.output.sizeBytes)} at ${formatTime(stage.published.atMs)}`);
  if (stage.reattached > 0) parts.push(`re-attached ${stage.reattached}×`);
  if (stage.sleepsUntilMs !== null) parts.push(`until ${formatTime(stage.sleepsUntilMs)}`);
  if (stage.failure !== null) parts.push(sanitizeLine(stage.failure.message));
  else if (stage.reason !== null) parts.push(sanitizeLine(stage.reason));
  return parts;
}

/** Renders the condition that decides, or has decided, that the stage does not run. */
function conditionNote({ state }: StageView, facts: StageFacts | undefined): readonly string[] {
  const isOpen = state === 'passed' || state === 'waiting';
  return isOpen && typeof facts?.when === 'string' ? [`when: ${sanitizeLine(facts.when)}`] : [];
}

/** Renders `budget 1,200 of 2,000 tokens`; nothing for a stage that never begins. */
function budgetNote(stage: StageView, facts: StageFacts | undefined): readonly string[] {
  if (stage.state === 'skipped' || stage.state === 'passed') return [];
  const budget = budgetOfStage(stage, facts);
  return budget === null ? [] : [`budget ${renderBudget(budget)}${budget.used === null ? ' for each item' : ''}`];
}

/** `12 of 500 items, 4 running, 1 failed`. */
function itemsNote({ total, running, succeeded, failed }: ItemCounts): string {
  const now = [running > 0 ? `${running} running` : '', failed > 0 ? `${failed} failed` : ''].filter(
    (text) => text !== '',
  );
  return [`${succeeded + failed} of ${formatItemCount(total)}`, ...now].join(', ');
}
