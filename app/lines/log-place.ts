/** The parts of a run that its log needs, and the check of a stage that a filter names. */
import type { AdmissionRecord } from '../../activities/admission/admission-record.ts';
import { shorten } from '../../domain/units/quote.ts';
import type { RunView } from '../../store/run-view.ts';
import { createUsageError } from '../app-error.ts';
import { formatItemCount } from './event-lines.ts';
import type { LogPlace } from './log-lines.ts';
import { hasStage } from './log-stage.ts';
import type { Machine } from '../machine.ts';

/** @param view  absent: nothing is known of the run */
export function toLogPlace(view: RunView | undefined): LogPlace {
  return {
    stages: view?.stages.map(({ id }) => id) ?? [],
    agents: view?.agents ?? [],
    itemsOf: new Set(view?.stages.flatMap(({ id, items }) => (items === null ? [] : [id]))),
  };
}

/** Accepts every name for a run whose stages are not known yet. @throws AppError that names the stages of the run */
export async function requireStage(name: string, { runId, stages: own }: RunView, context: Machine): Promise<void> {
  if (own.length === 0) return;
  const { records } = await context.stores();
  const admission = (await records.get(runId, 'admission')) as AdmissionRecord | null | undefined;
  const inItems = (admission?.plan.stages ?? []).filter(({ of }) => of !== undefined);
  const ofItems = inItems.map(({ id }) => id);
  const lists = inItems.flatMap(({ id, each }) => (each === undefined ? [] : [id]));
  if (hasStage(name, { own, ofItems, lists })) return;
  const shown = own.map(({ id, items }) =>
    items === null ? id : `${id} (${formatItemCount(items.total)}, such as \`${id}[0]\`)`,
  );
  throw createUsageError(
    `run ${runId} has no stage \`${shorten(name)}\``,
    `Its stages: ${[...shown, ...ofItems].join(', ')}`,
  );
}
