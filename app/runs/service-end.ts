/** Checks the end of a run with a service, for commands whose exit code shows whether the run did all of its work. */
import { isEndOfServices } from '../../domain/pipeline/service-end.ts';
import { fromWire, type PlanWire } from '../../domain/plan/wire.ts';
import type { Stores } from '../../store/stores.ts';
import type { RunView } from '../../store/run-view.ts';

/** False also if the plan of the run cannot be read. */
export async function hasEndedAsService(
  { runId, state, stages, outcome }: RunView,
  { records }: Pick<Stores, 'records'>,
): Promise<boolean> {
  if (state !== 'cancelled') return false;
  const wire = (await records.get(runId, 'plan').catch(() => null)) as PlanWire | null | undefined;
  if (wire === null || wire === undefined) return false;
  const hasFailure = outcome === null || outcome.failure !== null;
  return isEndOfServices(fromWire(wire), { state, hasFailure, stages });
}
