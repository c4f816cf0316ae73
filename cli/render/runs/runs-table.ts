import { formatAge, formatDurationMs } from '../../../domain/units/duration.ts';
import { type RunView, startOfRun } from '../../../store/run-view.ts';
import { paintOutcome, formatTime, renderToleratedNote } from '../../../app/lines/event-lines.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { openQuestionsOf } from '../../../store/open-questions.ts';
import { renderQuestion } from '../../../app/lines/questions.ts';
import type { Style } from '../text/style.ts';
import { renderTable } from '../text/table.ts';

const MAX_ID_CHARACTERS = 81;

/** `voidbox runs`: one line a run. */
export function renderRuns(
  views: readonly RunView[],
  options: { readonly style: Style; readonly width: number; readonly nowMs: number },
): string[] {
  const rows = views.map((view) => {
    const done = view.stages.filter((stage) => stage.state === 'succeeded').length;
    // A run that admission refused never started: its only time is the time of the refusal.
    const atMs = startOfRun(view) ?? view.finishedAtMs;
    const started = atMs === null ? '-' : formatAge(options.nowMs - atMs);
    const until = view.finishedAtMs ?? (view.damage === null ? options.nowMs : null);
    // The wait for admission does not count as time of the run.
    const took = view.startedAtMs === null || until === null ? '-' : formatDurationMs(until - view.startedAtMs);
    return [
      shortenRunId(sanitizeLine(view.runId)),
      paintOutcome(view.state, options.style),
      `${done}/${view.stages.length}`,
      started,
      took,
      noteOn(view),
    ];
  });
  return renderTable(['RUN', 'STATE', 'STAGES', 'STARTED', 'TOOK', ''], rows, options);
}

/**
 * Shortens an id, which may have 1,000 bytes. The beginning is enough to name the run, and the end differs between runs
 * of a schedule.
 */
export function shortenRunId(runId: string): string {
  const characters = [...runId];
  return characters.length <= MAX_ID_CHARACTERS
    ? runId
    : `${characters.slice(0, 56).join('')}…${characters.slice(-24).join('')}`;
}

function noteOn(view: RunView): string {
  const from = view.origin === null ? '' : `${view.origin.kind} of ${shortenRunId(sanitizeLine(view.origin.runId))}`;
  const mocked = view.mocked.length === 0 ? '' : `${view.mocked.length} mocked`;
  const agents = view.mockAgents.length === 0 ? '' : 'mock agents';
  return [standingOf(view), from, mocked, agents].filter((part) => part !== '').join('; ');
}

/**
 * Returns the question, the failed stage, or the code of a run that ended for a reason of its own; `status` shows its
 * message.
 */
function standingOf(view: RunView): string {
  const { outcome, damage, stages } = view;
  if (damage !== null) return sanitizeLine(damage);
  const [asking] = openQuestionsOf(view);
  if (asking !== undefined) return `${sanitizeLine(asking.name)} asks: ${renderQuestion(asking.question)}`;
  const sleeping = outcome === null ? findFirstWait(stages) : undefined;
  if (sleeping?.sleepsUntilMs !== undefined && sleeping.sleepsUntilMs !== null)
    return `${sanitizeLine(sleeping.id)} waits until ${formatTime(sleeping.sleepsUntilMs)}`;
  if (outcome?.state === 'succeeded') return renderToleratedNote(outcome).slice(2);
  if (outcome === null || outcome.failure === null) return '';
  return outcome.failedStage === null
    ? sanitizeLine(outcome.failure.code)
    : `failed at ${sanitizeLine(outcome.failedStage)}`;
}

/** Returns the wait that ends first; undefined if a stage is running. */
function findFirstWait(stages: RunView['stages']): RunView['stages'][number] | undefined {
  if (stages.some(({ state }) => state === 'running' || state === 'retrying')) return undefined;
  return stages
    .filter(({ sleepsUntilMs }) => sleepsUntilMs !== null)
    .sort((one, other) => one.sleepsUntilMs! - other.sleepsUntilMs!)[0];
}
