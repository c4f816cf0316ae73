import type { RunView, StageView } from '../../../store/run-view.ts';
import { remedyOf } from '../../../domain/errors/error-code.ts';
import { formatDurationMs } from '../../../domain/units/duration.ts';
import type { StageFailure } from '../../../domain/run/stage-result.ts';
import { paintOutcome, renderToleratedNote } from '../../../app/lines/event-lines.ts';
import { sanitize, sanitizeLine } from '../../../domain/security/sanitize.ts';
import { nameRunIn, renderCommand, quoteStageName } from '../../../app/runs/run-id.ts';
import { renderRefusals } from '../../../app/lines/network.ts';
import { renderCounts } from './stages.ts';
import type { Style } from '../text/style.ts';

/** Our own advice as it can be typed; see `CliContext.advise`. */
export type Advise = (text: string) => string;

interface RenderContext {
  readonly style: Style;
  readonly advise: Advise;
}

interface EndContext extends RenderContext {
  /** The folder with all files of the run; null if it is not on a disk of this host. */
  readonly folder: string | null;
}

/**
 * Renders the end of a run. Success is one line; a failure shows what failed, where, its last output, and what to type
 * next.
 */
export function renderRunEnd(
  view: RunView,
  options: { readonly style: Style; readonly nowMs: number; readonly advise: Advise; readonly folder: string | null },
): string[] {
  const { style, advise, folder } = options;
  // A run of another host, or a run that was not admitted, has no stages here to count.
  const counts = view.stages.length === 0 ? '' : ` ${style.dim(`(${renderCounts(view, options.nowMs)})`)}`;
  const heading = `${style.bold(sanitizeLine(view.runId))} ${paintOutcome(view.state, style)}${renderToleratedNote(view.outcome)}${counts}`;
  if (view.state === 'succeeded') return [heading];
  return [
    heading,
    ...renderFailures(view, { style, advise }),
    ...renderNextSteps(view, { style, advise, folder }, ['logs', 'status', 'retry']),
  ];
}

/** For each stage that failed, else for the run: what, its last words, what to do. */
export function renderFailures(view: RunView, telling: RenderContext): string[] {
  const { style } = telling;
  const failed = view.stages.filter((stage) => stage.state === 'failed' && stage.failure !== null);
  const failure = view.outcome?.failure ?? null;
  const where = view.outcome?.failedStage ?? null;
  const ofStages = failed.flatMap((stage) => [
    ...renderStageFailure(view.runId, stage, telling),
    ...renderRefusals(view, stage, telling),
  ]);
  // A run that ended for a reason of its own reports that in addition to the failed stages.
  if (failure === null || (ofStages.length > 0 && where !== null)) return ofStages;
  const ofRun = renderFailure(
    view.runId,
    where === null ? 'the run' : `stage ${style.bold(sanitizeLine(where))}`,
    { ...failure, message: withoutStage(failure.message, where ?? '') },
    telling,
  );
  return [...ofRun, ...ofStages];
}

function renderStageFailure(runId: string, stage: StageView, telling: RenderContext): string[] {
  if (stage.failure === null) return [];
  const attempt = stage.attempt > 1 ? ` (attempt ${stage.attempt})` : '';
  const failure = { ...stage.failure, message: withoutStage(stage.failure.message, stage.id) };
  const name = `stage ${telling.style.bold(sanitizeLine(stage.id))}${attempt}`;
  const [empty = '', first = '', ...rest] = renderFailure(runId, name, failure, telling);
  return [empty, first, ...whereOf(stage, telling.style), ...rest];
}

/** Renders the VM of a stage; no lines if the stage never had one. */
function whereOf({ isolation, vmm, accelerator, durationMs }: StageView, style: Style): string[] {
  if (isolation === null || isolation === 'none' || accelerator === null || accelerator === '') return [];
  const after = durationMs === null ? '' : `, after ${formatDurationMs(durationMs)}`;
  return [
    style.dim(
      `  in a VM: ${sanitizeLine(isolation)}, ${sanitizeLine(vmm ?? '-')}, ${sanitizeLine(accelerator)}${after}`,
    ),
  ];
}

/**
 * Removes the stage's name from a message. The message needs it elsewhere, but here the line already names the stage.
 */
function withoutStage(message: string, stage: string): string {
  const name = `stage ${stage} `;
  return message.startsWith(name) ? message.slice(name.length) : message;
}

function renderFailure(
  runId: string,
  where: string,
  failure: StageFailure,
  { style, advise }: RenderContext,
): string[] {
  const lines = [
    '',
    `${where} failed: ${sanitizeLine(failure.message)} ${style.dim(`(${sanitizeLine(failure.code)})`)}`,
  ];
  const tail = sanitize(failure.stderrTail).replace(/(?<!\n)\n+$/, '');
  if (tail !== '')
    lines.push(
      style.dim('  last lines of its standard error:'),
      ...tail.split('\n').map((line) => `  ${style.red('│')} ${line}`),
    );
  const remedy = remedyOf(failure.code);
  if (remedy !== null) lines.push(`  ${style.cyan('help:')} ${advise(nameRunIn(remedy, runId))}`);
  return lines;
}

/** What to type to know more. */
export function renderNextSteps(
  view: RunView,
  { style, advise, folder }: EndContext,
  commands: readonly ('logs' | 'status' | 'retry')[],
): string[] {
  const failedStage = view.outcome?.failedStage ?? view.stages.find((stage) => stage.state === 'failed')?.id ?? null;
  const stage = failedStage === null ? '' : `--stage ${quoteStageName(failedStage)}`;
  const { runId } = view;
  const lines = {
    logs: `  ${renderCommand('logs', runId, { options: stage })}`,
    status: `  ${renderCommand('status', runId)}`,
    retry: `  ${renderCommand('retry', runId)}`,
  };
  const continued = canContinue(view) ? [advise(`  ${renderCommand('retry', runId, { options: '--continue' })}`)] : [];
  // A run of another host, or a run that was never admitted, cannot be retried from here.
  const isHere = view.stages.length > 0;
  return [
    '',
    style.dim('Next:'),
    ...commands.filter((command) => command !== 'retry' || isHere).map((command) => advise(lines[command])),
    ...(isHere && commands.includes('retry') ? continued : []),
    ...(isHere && folder !== null ? [style.dim(`All of it: ${sanitizeLine(folder)}`)] : []),
  ];
}

/** Whether an agent that was saved did not succeed, as far as the view shows it. */
function canContinue({ hasSaves, agents, stages }: RunView): boolean {
  if (hasSaves !== true) return false;
  const isAgent = (id: string): boolean => agents.some((agent) => agent === id || agent.startsWith(`${id}.`));
  return stages.some(({ id, state }) => (state === 'failed' || state === 'cancelled') && isAgent(id));
}
