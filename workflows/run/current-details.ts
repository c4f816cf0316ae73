/** The run's board in the Temporal UI: its first failure, the command for its logs, and a table of its stages. */
import type { MachinePlan } from '../../domain/pipeline/machine-plan.ts';
import { listTolerated } from '../../domain/pipeline/outcome.ts';
import { flattenRows, rowAt } from '../../domain/pipeline/rows.ts';
import { isEnd, type RunState, type StagePhase, type StageState } from '../../domain/pipeline/state.ts';
import type { RunOutcome } from '../../domain/run/event.ts';
import type { RunOrigin } from '../../domain/run/origin.ts';
import type { StageFailure } from '../../domain/run/stage-result.ts';
import type { ItemsProgress } from '../items/run-items.ts';
import { code, commandLines, markdownTable } from '../markdown.ts';

/** People do not read a longer board. Running and failed stages come first. */
const MOST_ROWS = 60;

const ORDER: Readonly<Record<StagePhase, number>> = {
  failed: 0,
  asking: 1,
  running: 2,
  backoff: 3,
  sleeping: 4,
  deciding: 4,
  ready: 5,
  cancelled: 6,
  waiting: 7,
  succeeded: 8,
  passed: 9,
  skipped: 10,
};

/**
 * Makes a text on demand: the SDK turns details into JSON for the query that the UI sends, and does nothing else with
 * them. Without this, a run of 2,000 stages would make thousands of boards that are never read.
 */
export function lazyText(make: () => string): string {
  return { toJSON: make } as unknown as string;
}

export function runBoard(
  runId: string,
  plan: MachinePlan,
  state: RunState,
  origin?: RunOrigin,
  items: ReadonlyMap<string, ItemsProgress> = new Map(),
): string {
  const counts = new Map<StagePhase, number>();
  const stages = flattenRows(state.stages);
  for (const { phase } of stages) counts.set(phase, (counts.get(phase) ?? 0) + 1);
  const summary = [...counts]
    .sort(([a], [b]) => ORDER[a] - ORDER[b])
    .map(([phase, count]) => `${count} ${phase}`)
    .join(', ');
  const shown = firstOf(stages);
  const rows = shown.map((index) => {
    const { phase, attempt, visits } = rowAt(state.stages, index);
    const { id, loop } = plan.stages[index]!;
    const visit = loop === undefined || isEnd(phase) ? '' : `, visit ${visits + 1} of at most ${loop.maxVisits}`;
    const standing = phase === 'failed' ? '**failed**' : phase;
    return [id, `${standing}${visit}${itemsNote(items.get(id))}`, attempt === 0 ? '' : attempt];
  });
  const rest = plan.stages.length - shown.length;
  return [
    `**${plan.name}**: ${summary}`,
    ...originLines(origin),
    ...renderMockedLines(plan),
    ...failureLines(state),
    ...renderToleratedLines(plan, state),
    ...renderFinallyLines(plan, state),
    ...questionLines(runId, plan, stages),
    ...commandLines('Logs', 'voidbox logs', runId),
    '',
    ...markdownTable(['stage', 'state', 'attempt'], rows),
    ...(rest > 0 ? ['', `and ${rest} more`] : []),
  ].join('\n');
}

/** The pending children of the run show more details. */
function itemsNote(progress: ItemsProgress | undefined): string {
  if (progress === undefined) return '';
  const { items, windows, ended, failed } = progress;
  const done = windows === 0 ? '' : `, ${ended} of ${windows} ${windows === 1 ? 'window' : 'windows'} done`;
  return `: ${items} ${items === 1 ? 'item' : 'items'}${done}${failed === 0 ? '' : `, ${failed} failed`}`;
}

function originLines(origin: RunOrigin | undefined): readonly string[] {
  if (origin === undefined) return [];
  const { kind, runId, from, continue: continued } = origin;
  const agents = continued === undefined ? '' : ' Agents that did not succeed continue their sessions.';
  return [
    '',
    `A ${kind} of ${code(runId)}${from === null ? '' : ` from **${from}**`}: stages without an attempt have their outputs from it.${agents}`,
  ];
}

function renderMockedLines({ stages }: MachinePlan): readonly string[] {
  return [
    ...renderNamedLine(
      'Mocked, so that their work is not done',
      stages.filter(({ mocked }) => mocked === true),
    ),
    ...renderNamedLine(
      'Played by the mock agent, without a model',
      stages.filter(({ played }) => played === true),
    ),
  ];
}

function renderNamedLine(what: string, stages: MachinePlan['stages']): readonly string[] {
  if (stages.length === 0) return [];
  const shown = stages.slice(0, 8).map(({ id }) => `**${id}**`);
  const rest = stages.length > shown.length ? ` and ${stages.length - shown.length} more` : '';
  return ['', `${what}: ${shown.join(', ')}${rest}`];
}

/** The command that answers the first stage that asks. */
function questionLines(runId: string, plan: MachinePlan, stages: readonly StageState[]): readonly string[] {
  const asking = stages.findIndex(({ phase }) => phase === 'asking');
  if (asking === -1) return [];
  const { id } = plan.stages[asking]!;
  return ['', `**${id}** waits for an answer.`, ...commandLines('Answer', 'voidbox approve', runId, id)];
}

function renderToleratedLines(plan: MachinePlan, state: RunState): readonly string[] {
  const stages = listTolerated(plan, state);
  if (stages.length === 0) return [];
  const shown = stages.slice(0, 8).map((id) => `**${id}**`);
  const rest = stages.length > shown.length ? ` and ${stages.length - shown.length} more` : '';
  return ['', `${stages.length} ${stages.length === 1 ? 'failure' : 'failures'} tolerated: ${shown.join(', ')}${rest}`];
}

/** Explains why a run that is cancelled, or has failed, continues. */
function renderFinallyLines(plan: MachinePlan, { finallyBegun, finallyStop, stages }: RunState): readonly string[] {
  if (!finallyBegun || finallyStop !== null) return [];
  const open = plan.stages.flatMap(({ id, finally: isLast }, index) =>
    isLast === true && !isEnd(rowAt(stages, index).phase) ? [`**${id}**`] : [],
  );
  return open.length === 0 ? [] : ['', `All other stages have ended; \`finally\`: ${open.join(', ')}`];
}

function failureLines({ gaveUp, firstFailure }: RunState): readonly string[] {
  if (gaveUp !== null) return ['', `The run gave up: ${renderFailure(gaveUp)}`];
  return firstFailure === null ? [] : ['', renderFirstFailure(firstFailure.stage, firstFailure.failure)];
}

function renderFirstFailure(stage: string, failure: StageFailure): string {
  return `First failure: **${stage}**, ${renderFailure(failure)}`;
}

function renderFailure({ code: type, message }: StageFailure): string {
  return `${code(type)} ${code(message)}`;
}

/** Whether a reset found a run that had ended. The later states of its stages are then not their real results. */
export function foundAnEnd({ firstFailure }: RunState): boolean {
  return firstFailure?.failure.code === 'run/ended';
}

/** @param outcome  the outcome of the run before it was reset */
export function renderEndedBoard(
  runId: string,
  plan: MachinePlan,
  { state, failedStage, failure }: RunOutcome,
): string {
  return [
    `**${plan.name}**: ${state} before it was reset. The reset ran nothing again; red rows of \`run/ended\` mean that.`,
    ...renderMockedLines(plan),
    ...(failure === null || failedStage === null ? [] : ['', renderFirstFailure(failedStage, failure)]),
    ...commandLines('Stages', 'voidbox status', runId),
    ...commandLines('Logs', 'voidbox logs', runId),
  ].join('\n');
}

/** Selects the stages that people need to see first; each kind is in the plan's order. One pass. */
function firstOf(stages: readonly StageState[]): readonly number[] {
  if (stages.length <= MOST_ROWS) return stages.map((_, index) => index);
  const byPhase = Object.keys(ORDER).map((): number[] => []);
  stages.forEach(({ phase }, index) => {
    const same = byPhase[ORDER[phase]]!;
    if (same.length < MOST_ROWS) same.push(index);
  });
  return byPhase.flat().slice(0, MOST_ROWS);
}
