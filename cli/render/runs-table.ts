import { formatAge, formatDurationMs } from '../../domain/units/duration.ts';
import type { RunView } from '../../store/projection.ts';
import { paintOutcome } from './event-lines.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { Style } from './style.ts';
import { renderTable } from './table.ts';

const MAX_ID_CHARACTERS = 81;

/** `voidbox runs`: one line a run. */
export function renderRuns(
  views: readonly RunView[],
  options: { readonly style: Style; readonly width: number; readonly nowMs: number },
): string[] {
  const rows = views.map((view) => {
    const done = view.stages.filter((stage) => stage.state === 'succeeded').length;
    const started = view.startedAtMs === null ? '-' : formatAge(options.nowMs - view.startedAtMs);
    const until = view.finishedAtMs ?? (view.damage === null ? options.nowMs : null);
    const took = view.startedAtMs === null || until === null ? '-' : formatDurationMs(until - view.startedAtMs);
    return [
      shortened(sanitizeLine(view.runId)),
      paintOutcome(view.state, options.style),
      `${done}/${view.stages.length}`,
      started,
      took,
      whyEnded(view),
    ];
  });
  return renderTable(['RUN', 'STATE', 'STAGES', 'STARTED', 'TOOK', ''], rows, options);
}

/** An id may have 1,000 bytes: its beginning, by which it can be named, and its end, by which schedules tell runs apart. */
function shortened(runId: string): string {
  const characters = [...runId];
  return characters.length <= MAX_ID_CHARACTERS
    ? runId
    : `${characters.slice(0, 56).join('')}…${characters.slice(-24).join('')}`;
}

/** Where it failed; of a run that ended for a reason of its own, its code: `status` has the words. */
function whyEnded({ outcome, damage }: RunView): string {
  if (damage !== null) return sanitizeLine(damage);
  if (outcome === null || outcome.failure === null) return '';
  return outcome.failedStage === null
    ? sanitizeLine(outcome.failure.code)
    : `failed at ${sanitizeLine(outcome.failedStage)}`;
}
