import { formatAge, formatDurationMs } from '../../domain/units/duration.ts';
import type { RunView } from '../../store/projection.ts';
import { paintOutcome } from './event-lines.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { Style } from './style.ts';
import { renderTable } from './table.ts';

const MAX_ID_CHARACTERS = 81;

/** `voidbox runs`: one line a run. */
export function renderRuns(views: readonly RunView[], options: { readonly style: Style; readonly width: number; readonly nowMs: number }): string[] {
  const rows = views.map((view) => {
    const done = view.stages.filter((stage) => stage.state === 'succeeded').length;
    const started = view.startedAtMs === null ? '-' : formatAge(options.nowMs - view.startedAtMs);
    const until = view.finishedAtMs ?? (view.damage === null ? options.nowMs : null);
    const took = view.startedAtMs === null || until === null ? '-' : formatDurationMs(until - view.startedAtMs);
    const failed = view.outcome?.failedStage ?? null;
    return [
      shortened(sanitizeLine(view.runId)),
      paintOutcome(view.state, options.style),
      `${done}/${view.stages.length}`,
      started,
      took,
      view.damage !== null ? sanitizeLine(view.damage) : failed === null ? '' : `failed at ${sanitizeLine(failed)}`,
    ];
  });
  return renderTable(['RUN', 'STATE', 'STAGES', 'STARTED', 'TOOK', ''], rows, options);
}

/** An id may have 1,000 bytes: its beginning, by which it can be named, and its end, by which schedules tell runs apart. */
function shortened(runId: string): string {
  const characters = [...runId];
  return characters.length <= MAX_ID_CHARACTERS ? runId : `${characters.slice(0, 56).join('')}…${characters.slice(-24).join('')}`;
}
