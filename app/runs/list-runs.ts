/** Lists runs in pages. */
import type { IndexedRun, RunPosition, RunQuery } from '../../activities/ports/run-index.ts';
import { emptyView, type RunView, withDamage } from '../../store/run-view.ts';
import type { Machine } from '../machine.ts';
import { readRepairedViews, readViews, repairRuns } from './repair-runs.ts';

export interface ListedRuns {
  readonly views: readonly RunView[];
  /** The position of the next page; null if no run follows. */
  readonly next: RunPosition | null;
}

/**
 * Reads one page of the index, the run with the latest start first. The state of a listed run is the one of its events,
 * so a run that ends during the call may have another state than the query names.
 */
export async function listRuns(query: RunQuery, context: Machine): Promise<ListedRuns> {
  const { index } = await context.stores();
  // The index lists a run that was ended from outside as running until a caller repairs it.
  const isRepaired = query.state !== undefined && query.state !== 'damaged';
  if (isRepaired) await repairRuns(await index.openRuns(), context);
  const { runs, next } = await index.list(query);
  return { views: await readViewsOf(runs, context, isRepaired ? readViews : readRepairedViews), next };
}

/** Reads the runs of a page of the index; a run without a readable id is marked as damaged. */
export async function readViewsOf(
  runs: readonly IndexedRun[],
  context: Machine,
  readAll: typeof readRepairedViews = readRepairedViews,
): Promise<readonly RunView[]> {
  const views = await readAll(
    runs.flatMap(({ runId }) => (runId === null ? [] : [runId])),
    context,
  );
  const next = views.values();
  return runs.map(({ runId, label, problem }) => {
    const view = runId === null ? undefined : next.next().value;
    return view ?? withDamage(emptyView(label), problem ?? '');
  });
}
